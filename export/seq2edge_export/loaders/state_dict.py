"""Read tensors and settings from files without running code from them."""

import json
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from seq2edge.config.schema import short_repr
from seq2edge.errors import CheckpointError

StateDict = dict[str, Tensor]
Tensors = Mapping[str, Tensor]  # a StateDict or StoredTensors
NESTED = (  # keys under which training scripts store it, also one inside another
    *("state_dict", "model_state_dict", "model", "net", "network", "module", "weights", "params"),
    *("ema", "ema_state_dict", "model_ema", "ema_model", "shadow"),
)
DEPTH = 3  # of nested keys
MAX_KEYS = 20  # in an error
COMPILED, PARALLEL = "_orig_mod.", "module."  # prefixes added by torch.compile and DataParallel
CONVERT = "torch.save(model.state_dict(), 'weights.pt')"
REOPEN_AFTER = 2**26  # bytes read before a mapped file is closed and opened again
ZIP = b"PK\x03\x04"  # the first bytes of what torch.save writes since 1.6
PICKLE = "data.pkl"  # the member that describes the tensors
REFUSED = re.compile(r"GLOBAL ([\w.]+)")  # how torch.load names a class that it refuses


def read_state_dict(path: Path) -> StateDict:
    """Read the tensors of a ``.safetensors`` file or of one written by ``torch.save``."""
    if not path.is_file():
        raise CheckpointError(f"{path} is not a file; write a state dict with  {CONVERT}")
    content = _load_safetensors(path) if path.suffix == ".safetensors" else _load_tensors(path)
    return _without_wrapper_prefixes(_find_state_dict(content, path))


def read_pickled(path: Path) -> Any:
    """Read a file of ``torch.save`` that holds tensors, plain values and ``argparse.Namespace`` objects."""
    check_archive(path)
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals([(Namespace, "argparse.Namespace")]):
            warnings.simplefilter("ignore")  # about TorchScript, which the error below covers
            return torch.load(path, map_location="cpu", weights_only=True, mmap=is_archive(path))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # torch.load raises many types for broken files
        refused = REFUSED.search(str(error))
        reason = f"needs the class {refused[1]}, and code from a file is never run" if refused else "is broken"
        raise CheckpointError(f"{path} {reason}") from None


def check_archive(path: Path) -> None:
    """Refuse a zip file with compressed members, which ``torch.save`` never writes: they could fill the memory."""
    if not is_archive(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            size, members = path.stat().st_size, archive.infolist()
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"{path} is broken: it is not a complete file of torch.save ({error}); write it again with  {CONVERT}"
        ) from None
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.file_size > size:
            raise CheckpointError(
                f"{path} has the member {member.filename!r} of {member.file_size:,} bytes, which is compressed or "
                "larger than the file; torch.save does not write such files: write it again without compression"
            )


def is_archive(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(ZIP)) == ZIP
    return False


def read_pickle_bytes(path: Path) -> bytes:
    """Return the pickle in a zip file of ``torch.save``, without loading it."""
    check_archive(path)
    try:
        with zipfile.ZipFile(path) as archive:
            [name] = (name for name in archive.namelist() if name.rpartition("/")[2] == PICKLE)
            return archive.read(name)
    except (OSError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} cannot be read as a file of torch.save ({error})") from None


class Namespace:
    """Stand-in for ``argparse.Namespace`` in pickles; ``vars`` returns the settings."""


def read_object(path: Path, *, required: bool = True) -> dict[str, Any]:
    """Read a file that holds one JSON object; a missing file is empty unless it is ``required``."""
    if not required and not path.exists():
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


class StoredTensors(Mapping[str, Tensor]):
    """The tensors of several files by name, each read when it is looked up.

    The pages of a mapped file stay in memory as long as one of its tensors is alive, so the file is reopened now and
    then. Reading one tensor after another never takes much more memory than the largest of them.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        self.locations = {name: (file, name) for file in files for name in read_state_dict(file)}
        self.changed: StateDict = {}
        self._open: tuple[Path, StateDict] | None = None
        self._bytes_read = 0

    def __getitem__(self, name: str) -> Tensor:
        if name in self.changed:
            return self.changed[name]
        file, stored_name = self.locations[name]
        tensor = self._content(file)[stored_name]
        self._bytes_read += tensor.nbytes
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self.locations)

    def __len__(self) -> int:
        return len(self.locations)

    def rename(self, names: Mapping[str, str]) -> None:
        """Keep the tensors that are in ``names``, under their new names."""
        self.locations = {names[name]: location for name, location in self.locations.items() if name in names}

    def change(self, name: str, tensor: Tensor | None) -> None:
        """Replace a tensor, or remove it."""
        if tensor is None:
            del self.locations[name]
        else:
            self.changed[name] = tensor

    def _content(self, file: Path) -> StateDict:
        is_due = self._bytes_read > REOPEN_AFTER and is_mapped(file)
        if self._open is None or self._open[0] != file or is_due:
            self._open = None  # closes the file before it is opened again
            self._open, self._bytes_read = (file, read_state_dict(file)), 0
        return self._open[1]


def count_layers(names: Iterable[str], prefix: str) -> int:
    """Count the different parts that follow a prefix such as ``encoder.layers.`` in the names of tensors."""
    return len({name.removeprefix(prefix).split(".")[0] for name in names if name.startswith(prefix)})


def is_mapped(path: Path) -> bool:
    """Return whether tensors are mapped from the file; the format of ``torch.save`` before 1.6 cannot be mapped."""
    return path.suffix == ".safetensors" or is_archive(path)


def _load_safetensors(path: Path) -> StateDict:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read as safetensors ({error})") from None


def _load_tensors(path: Path) -> Any:
    check_archive(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about TorchScript, which the error below covers
            return torch.load(path, map_location="cpu", weights_only=True, mmap=is_mapped(path))
    except Exception:  # torch.load raises many types for broken files
        raise CheckpointError(
            f"{path} is broken or holds more than tensors, and code from a file is never run: "
            f"load the model where its code is installed, write the tensors with  {CONVERT}  and use that file"
        ) from None


def _find_state_dict(content: Any, path: Path) -> StateDict:
    """Return the state dict itself, or the one under a usual key of a larger checkpoint."""
    candidates = [
        {key: value for key, value in entries.items() if isinstance(key, str) and _is_dense(value)}
        for entries in _dicts(content, DEPTH)
    ]
    for least in (2, 0):  # a number beside the state dict, such as that of updates, may be a tensor too
        for tensors in candidates:
            if any(tensor.dim() >= least for tensor in tensors.values()):
                return tensors
    raise CheckpointError(
        f"{path} holds no tensors by name, neither at its top level nor under {', '.join(NESTED)}: "
        f"{_describe(content)}; write  {CONVERT}"
    )


def _dicts(content: Any, depth: int) -> Iterator[dict[Any, Any]]:
    """Yield a dict and those under its usual keys."""
    if isinstance(content, dict):
        yield content
        for key in NESTED if depth else ():
            yield from _dicts(content.get(key), depth - 1)


def _describe(content: Any) -> str:
    if not isinstance(content, dict):
        return f"it is {type(content).__name__}"
    keys = [f"{short_repr(key)} ({type(value).__name__})" for key, value in islice(content.items(), MAX_KEYS)]
    more = f" and {len(content) - MAX_KEYS:,} more" if len(content) > MAX_KEYS else ""
    return f"its keys are {', '.join(keys) or 'none'}{more}"


def _is_dense(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout == torch.strided and not value.is_meta


def _without_wrapper_prefixes(state: StateDict) -> StateDict:
    state = {name.replace(COMPILED, ""): tensor for name, tensor in state.items()}
    while all(name.startswith(PARALLEL) for name in state):
        state = {name.removeprefix(PARALLEL): tensor for name, tensor in state.items()}
    return state
