"""Download models by their name on the Hugging Face Hub, such as ``Helsinki-NLP/opus-mt-en-de``."""

import re
import sys
from pathlib import Path

from seq2edge.errors import CheckpointError, MissingExtraError

NAME = re.compile(r"[A-Za-z0-9][\w.\-]*/[A-Za-z0-9][\w.\-]*")
FILES = ["*.json", "*.txt", "*.spm", "*.model", "README.md"]
WEIGHTS = (["model*.safetensors"], ["pytorch_model*.bin"])  # the second only if the first is missing


def is_hub_name(path: Path) -> bool:
    """Return whether a path looks like a name on the Hub, and neither it nor its parent folder exists here."""
    return NAME.fullmatch(path.as_posix()) is not None and not path.exists() and not path.parent.exists()


def download(name: str) -> Path:
    """Download a model without the files of other frameworks, and return its folder; cached files are reused."""
    try:
        import huggingface_hub
        from huggingface_hub.errors import LocalEntryNotFoundError
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ModuleNotFoundError:
        raise MissingExtraError("huggingface_hub", "hub") from None
    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        for weights in WEIGHTS:
            folder = Path(huggingface_hub.snapshot_download(name, allow_patterns=[*FILES, *weights]))
            if any(folder.glob(weights[0])):
                break
    except LocalEntryNotFoundError:
        raise CheckpointError(
            f"{name} is not a folder, and the Hugging Face Hub, where it could be a model, cannot be reached "
            "(nor was it downloaded before): connect to the network, or name the path of a folder"
        ) from None
    except Exception as error:  # of the network, the Hub or the disk
        reason = str(error).strip().split("\n")[0]
        raise CheckpointError(
            f"{name} is not a folder, and cannot be downloaded from the Hugging Face Hub ({reason})"
        ) from None
    return folder
