"""Write the bundles that the tests of other devices run: the embedded checkpoint, and a tiny one."""

import shutil
import sys
from pathlib import Path

from tiny_checkpoint import write_checkpoint

from seq2edge_export.export import export_bundle
from seq2edge_graphs.quantize.wish import Wish


def main(folder: Path, checkpoint: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for precision in ("fp32", "fp16", "int8"):
        wish = Wish(precision=precision)
        export_bundle(
            checkpoint, folder / f"en-de-{precision}", dialect="portable", wish=wish, compare=False, force=True
        )
    shutil.rmtree(folder / "tiny-checkpoint", ignore_errors=True)
    export_bundle(
        write_checkpoint(folder / "tiny-checkpoint"), folder / "tiny", dialect="portable", compare=False, force=True
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
