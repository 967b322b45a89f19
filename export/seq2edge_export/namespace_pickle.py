"""Read what ``torch.save`` wrote with its settings in an ``argparse.Namespace``, without running code; needs torch.

Training programs keep their settings beside the tensors, and pickle both. The unpickler of ``torch.load`` knows tensors
and plain values alone; beside these it is told of one class, a stand-in that can do nothing but hold values.
"""

import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from seq2edge.errors import CheckpointError

REFUSED = re.compile(r"GLOBAL ([\w.]+)")  # how torch names what a file asks for and may not have


class Namespace:
    """Stands in for ``argparse.Namespace``: ``vars`` gives the settings."""


def read_pickled(path: Path) -> Any:
    """The content of a file; one that asks for any other class or function is refused with its name."""
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals([(Namespace, "argparse.Namespace")]):
            warnings.simplefilter("ignore")  # it says more about TorchScript than the error does
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # a broken file makes torch.load raise whatever its reader meets
        asked = REFUSED.search(str(error))
        what = f"asks for {asked[1]}, and nothing from a file is ever run" if asked else "is broken"
        raise CheckpointError(f"{path} {what}") from None
