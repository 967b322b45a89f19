"""Prepare what runs on emulated CPUs: the light wheel with its dependencies, an arm64 root folder, bundles, products.

``make test-cpus`` calls this when sources or dependencies have changed. Nothing is executed under emulation here: pip
selects and unpacks the wheels of the other architecture, and the packages of the root folder are only extracted.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx_ir as ir
from small_graphs import constant, given

from seq2edge_export.export import export_bundle
from seq2edge_graphs.quantize.config import QuantizationConfig
from seq2edge_graphs.quantize.pipeline import quantize_bundle
from seq2edge_graphs.quantize.storage import round_channels

ROOT = Path(__file__).parents[2]
DEBIAN = "bookworm"  # has Python 3.11 and glibc 2.36
ARM64 = [
    *("--python-version=3.11", "--only-binary=:all:", "--platform=manylinux2014_aarch64"),
    *(f"--platform=manylinux_2_{minor}_aarch64" for minor in range(17, 37)),
]
INNER, CHANNELS, ROWS = 512, 64, 48


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "arm64").is_dir():
        make_root(folder / "arm64")
    install_wheel(folder / "x86_64-packages", [])
    install_wheel(folder / "arm64-packages", ARM64)
    fp32 = export_bundle(ROOT / "models" / "en-pt", folder / "fp32", compare=False, force=True).folder
    quantize_bundle(fp32, folder / "int4", QuantizationConfig(precision="int4"), compare=False, force=True)
    write_products(folder / "products")


def make_root(root: Path) -> None:
    """Unpack the packages of a small Debian with Python; the folder appears under its name when it is complete."""
    unfinished = root.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    options = ("--arch=arm64", "--foreign", "--variant=minbase", "--include=python3")
    run("debootstrap", *options, DEBIAN, unfinished)
    for package in sorted((unfinished / "var/cache/apt/archives").glob("*.deb")):
        run("dpkg-deb", "--extract", package, unfinished)
    unfinished.rename(root)


def install_wheel(target: Path, platform: list[str]) -> None:
    """Install the wheel of this source tree with [cpu] for a platform; its dependencies only if they changed."""
    wheels = target.with_suffix(".wheel")
    shutil.rmtree(wheels, ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels)
    wheel = next(wheels.glob("*.whl"))
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", target, *platform)
    wanted = (ROOT / "pyproject.toml").read_text() + (ROOT / "constraints.txt").read_text()
    installed = target / "installed-from"
    if installed.is_file() and installed.read_text() == wanted:
        run(*pip, "--no-deps", wheel)
    else:
        shutil.rmtree(target, ignore_errors=True)
        run(*pip, "--constraint", ROOT / "constraints.txt", f"{wheel}[cpu]")
        installed.write_text(wanted)


def write_products(folder: Path) -> None:
    """Write integer products with their exact results: of weights as int8 bundles store them, and of the largest."""
    random = np.random.default_rng(0)
    folder.mkdir(exist_ok=True)
    shape = (CHANNELS, INNER)
    weights = {
        "normal": round_channels(random.normal(size=shape).astype(np.float32))[0],
        "one-sign": round_channels(random.uniform(0.4, 0.5, size=shape).astype(np.float32))[0],
        "full-range": np.full(shape, 127, np.int8),  # saturates 16 bits on some CPUs: not what bundles store
    }
    rows = random.integers(0, 256, (ROWS, INNER), np.uint8)
    rows[::2] = 255
    for name, channels in weights.items():
        ir.save(product(channels), folder / f"{name}.onnx")
        exact = (rows.astype(np.int64) - 128) @ channels.T.astype(np.int64)
        np.savez(folder / f"{name}.npz", rows=rows, exact=exact)


def product(channels: np.ndarray) -> ir.Model:
    tape, x = ir.tape.Tape(), given("x", ["rows", channels.shape[1]], ir.DataType.UINT8)
    zero = constant(tape, "zero", np.array(128, np.uint8))
    y = tape.op("MatMulInteger", [x, constant(tape, "weights", channels.T.copy()), zero])
    y.name, y.type = "y", ir.TensorType(ir.DataType.INT32)
    graph = ir.Graph([x], [y], nodes=tape.nodes, initializers=tape.initializers, opset_imports={"": 20}, name="product")
    return ir.Model(graph, ir_version=10)


def run(*command: object) -> None:
    done = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        sys.exit(f"other CPUs cannot be tested: {command[0]} failed with {done.returncode}: {reason}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
