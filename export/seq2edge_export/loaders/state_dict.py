"""Read a state dict without running code from its file.

Tensors that stay in their files until they are asked for.

Read what ``torch.save`` wrote with its settings in an ``argparse.Namespace``, without running code.

Training programs keep their settings beside the tensors, and pickle both. The unpickler of ``torch.load`` knows tensors
and plain values alone; beside these it is told of one class, a stand-in that can do nothing but hold values.

Read a file that holds one JSON object.
"""

import json
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from seq2edge.errors import CheckpointError

StateDict = dict[str, Tensor]
Tensors = Mapping[str, Tensor]  # a state dict, or one that stays in its files
NESTED = ("state_dict", "model_state_dict", "model")  # where training scripts keep it beside other things
COMPILED, PARALLEL = "_orig_mod.", "module."  # what torch.compile and DataParallel put into the names
CONVERT = "torch.save(model.state_dict(), 'weights.pt')"


def read_state_dict(path: Path) -> StateDict:
    """The tensors of a ``.safetensors`` file or of one that ``torch.save`` wrote, by their names in the model."""
    if not path.is_file():
        raise CheckpointError(f"{path} is not a file; a state dict is what  {CONVERT}  writes")
    content = _load_safetensors(path) if path.suffix == ".safetensors" else _load_tensors(path)
    return _plain_names(_unwrapped(content, path))


def is_mapped(path: Path) -> bool:
    """Whether a file's tensors are mapped from it rather than copied; what torch.save wrote before 1.6 cannot be."""
    return path.suffix == ".safetensors" or zipfile.is_zipfile(path)


def _load_safetensors(path: Path) -> StateDict:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read as safetensors ({error})") from None


def _load_tensors(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says more about TorchScript than the error does
            return torch.load(path, map_location="cpu", weights_only=True, mmap=is_mapped(path))
    except Exception:  # a broken file makes torch.load raise whatever its reader meets
        raise CheckpointError(
            f"{path} is broken or holds more than tensors, and code from a file is never run: "
            f"where the model can be loaded, write its tensors alone with  {CONVERT}  and use that file"
        ) from None


def _unwrapped(content: Any, path: Path) -> StateDict:
    """The state dict itself, or the one under a usual key of a larger checkpoint."""
    candidates = [content, *(content.get(key) for key in NESTED)] if isinstance(content, dict) else []
    for candidate in candidates:
        entries = candidate.items() if isinstance(candidate, dict) else ()
        tensors = {key: value for key, value in entries if isinstance(key, str) and _is_plain(value)}
        if tensors:
            return tensors
    raise CheckpointError(
        f"{path} holds no tensors by name, neither at its top nor under {', '.join(NESTED)}; write  {CONVERT}"
    )


def _is_plain(value: Any) -> bool:
    """Whether it is a tensor with numbers in it: neither sparse nor without content."""
    return isinstance(value, Tensor) and value.layout == torch.strided and not value.is_meta


def _plain_names(state: StateDict) -> StateDict:
    state = {name.replace(COMPILED, ""): tensor for name, tensor in state.items()}
    while all(name.startswith(PARALLEL) for name in state):
        state = {name.removeprefix(PARALLEL): tensor for name, tensor in state.items()}
    return state


WINDOW = 2**26  # bytes to look at before a file is closed and opened again


class StoredTensors(Mapping[str, Tensor]):
    """The tensors of some files by name, each read anew whenever it is looked up.

    A mapped file counts as memory as far as it was looked at, until the last of its tensors is forgotten; so whoever
    looks up one after the other never holds much more than that one.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        self.places = {name: (file, name) for file in files for name in read_state_dict(file)}
        self.changed: StateDict = {}
        self._open: tuple[Path, StateDict] | None = None
        self._looked_at = 0

    def __getitem__(self, name: str) -> Tensor:
        if name in self.changed:
            return self.changed[name]
        file, stored = self.places[name]
        tensor = self._content(file)[stored]
        self._looked_at += tensor.nbytes
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def rename(self, names: Mapping[str, str]) -> None:
        """Keep the tensors that ``names`` has, each under the name that it gives."""
        self.places = {names[name]: place for name, place in self.places.items() if name in names}

    def change(self, name: str, tensor: Tensor | None) -> None:
        """Put another tensor in the place of a stored one, or take it away."""
        if tensor is None:
            del self.places[name]
        else:
            self.changed[name] = tensor

    def _content(self, file: Path) -> StateDict:
        full = self._looked_at > WINDOW and is_mapped(file)
        if self._open is None or self._open[0] != file or full:
            self._open = None  # before it is opened again
            self._open, self._looked_at = (file, read_state_dict(file)), 0
        return self._open[1]


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


def read_object(path: Path, *, wanted: bool = True) -> dict[str, Any]:
    """What a checkpoint's file says; one that is not ``wanted`` may be missing."""
    if not wanted and not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON in UTF-8 ({error})") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} should hold a JSON object, not {type(content).__name__}")
    return content
