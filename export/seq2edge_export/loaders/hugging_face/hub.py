"""Models by their name on the Hugging Face Hub, such as ``Helsinki-NLP/opus-mt-en-de``."""

import re
import sys
from pathlib import Path

from seq2edge.errors import CheckpointError, MissingExtraError

NAME = re.compile(r"[A-Za-z0-9][\w.\-]*/[A-Za-z0-9][\w.\-]*")
WANTED = ["*.json", "*.txt", "*.spm", "*.model", "README.md"]
WEIGHTS = (["model*.safetensors"], ["pytorch_model*.bin"])  # the second where there is none of the first


def is_hub_name(path: Path) -> bool:
    """Whether it is a name on the Hub and nothing on this machine: two words, and no folder of the first."""
    return NAME.fullmatch(path.as_posix()) is not None and not path.exists() and not path.parent.exists()


def download(name: str) -> Path:
    """The folder of a model; what was downloaded before is not again. Files of other frameworks are left there."""
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
            folder = Path(huggingface_hub.snapshot_download(name, allow_patterns=[*WANTED, *weights]))
            if any(folder.glob(weights[0])):
                break
    except LocalEntryNotFoundError:
        raise CheckpointError(
            f"{name} is no folder here, and the Hugging Face Hub, where it could be a model, cannot be reached "
            "(nor was it downloaded before): connect to the network, or give the path of a folder"
        ) from None
    except Exception as error:  # whatever the network, the Hub or the disk has to say
        reason = str(error).strip().split("\n")[0]
        raise CheckpointError(
            f"{name} is no folder here, and as a name on the Hugging Face Hub it cannot be downloaded ({reason})"
        ) from None
    return folder
