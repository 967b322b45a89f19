"""Peak memory of loading a bundle, beyond that of the bare runtime: an open session on a graph of one node.

    python benchmarks/memory.py BUNDLE [BUNDLE ...]    prints one JSON line a bundle

Each measurement is a process of its own: a peak never falls.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import onnx_ir as ir

from seq2edge.bundle import load_bundle

CHILD = """
import resource, sys
from pathlib import Path
from seq2edge.sessions import open_session
from seq2edge.translator import Translator
session = open_session(Path(sys.argv[1]), threads=1)
translator = [Translator(folder, threads=1) for folder in sys.argv[2:]]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@click.command()
@click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path))
def main(bundles: tuple[Path, ...]) -> None:
    """Measure each bundle in a process of its own."""
    for folder in bundles:
        size, beyond = load_bundle(folder).size, loading_memory(folder)
        row = {"bundle": folder.name, "megabytes": size / 1e6, "beyond_runtime": beyond / 1e6, "ratio": beyond / size}
        print(json.dumps({key: round(value, 2) if isinstance(value, float) else value for key, value in row.items()}))


def loading_memory(folder: Path) -> int:
    """Bytes by which loading a bundle raises the peak."""
    with TemporaryDirectory() as temporary:
        graph = Path(temporary) / "one.onnx"
        save_one_node(graph)
        return peak(graph, folder) - peak(graph)


def peak(*arguments: Path) -> int:
    command = [sys.executable, "-c", CHILD, *map(str, arguments)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def save_one_node(path: Path) -> None:
    given = ir.Value(name="x", shape=ir.Shape([1]), type=ir.TensorType(ir.DataType.FLOAT))
    node = ir.node("Identity", [given])
    node.outputs[0].name, node.outputs[0].shape, node.outputs[0].type = "y", given.shape, given.type
    ir.save(ir.Model(ir.Graph([given], node.outputs, nodes=[node], opset_imports={"": 20}), ir_version=10), path)


if __name__ == "__main__":
    main()
