"""Write the bundles for the tests of other devices: of the default checkpoint, and of a tiny one."""

import shutil
import sys
from pathlib import Path

from tiny_checkpoint import write_checkpoint

from seq2edge_export.export import export_bundle
from seq2edge_graphs.quantize.config import QuantizationConfig
from seq2edge_graphs.quantize.pipeline import quantize_bundle


def main(folder: Path, checkpoint: Path) -> None:
    """Export without a comparison, which is left to the tests."""
    folder.mkdir(parents=True, exist_ok=True)
    fp32 = folder / "en-pt-fp32"
    export_bundle(checkpoint, fp32, dialect="portable", compare=False, force=True)
    quantize_bundle(fp32, folder / "en-pt-fp16", QuantizationConfig(precision="fp16"), compare=False, force=True)
    quantize_bundle(
        fp32, folder / "en-pt-half", QuantizationConfig(precision="fp16-compute"), compare=False, force=True
    )
    quantize_bundle(fp32, folder / "en-pt-int8", QuantizationConfig(precision="int8"), compare=False, force=True)
    shutil.rmtree(folder / "tiny-checkpoint", ignore_errors=True)
    tiny = write_checkpoint(folder / "tiny-checkpoint")
    export_bundle(tiny, folder / "tiny", dialect="portable", compare=False, force=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
