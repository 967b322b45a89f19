"""Find and read the files of a fairseq model without running code from them.

Dictionaries and subword codes are next to the checkpoint or up to two folders further down, as in
``data-bin/wmt.en-de``, or where fairseq's scripts put them::

    folder/                            or  folder/
    ├── model.pt                           ├── checkpoints/checkpoint_best.pt
    ├── dict.de.txt, dict.en.txt           └── data/
    └── bpecodes                               ├── dict.de.txt, dict.en.txt
                                               └── bpe.code

A checkpoint pickles its settings next to the tensors, as an ``argparse.Namespace`` or as objects of omegaconf.
``torch.load(weights_only=True)`` creates tensors and plain containers only. Every other class that fairseq uses in
checkpoints is replaced by a stand-in that stores its arguments: no module is imported and no code is called. Any other
name is refused before anything is loaded.
"""

import pickletools
import re
import warnings
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import torch

from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.state_dict import is_archive, read_pickle_bytes
from seq2edge_export.loaders.tokenizer_files import SENTENCEPIECE

CHECKPOINTS = "checkpoints"
PREFERRED = ("model.pt", "checkpoint_best.pt", "checkpoint_last.pt")  # in this order
DICTIONARY = re.compile(r"dict\.(.+)\.txt")
CODES = re.compile(r"(?:.*[._-])?(?:bpe[._-]?)?codes?(?:[._-].*)?", re.IGNORECASE)  # bpecodes, code, ende30k.bpe.code
PICKLES = 4  # in files before the zip format: magic number, protocol, machine, content; storages follow
OF_TORCH = re.compile(
    r"torch\..*|collections\.(OrderedDict|Counter)|_codecs\.encode"
)  # created or refused by torch.load
KNOWN = re.compile(
    r"argparse\.Namespace|(fairseq\w*|omegaconf|numpy|typing|enum)\..+|pathlib\.\w+|collections\.defaultdict|"
    r"_?operator\.getitem|builtins\.(int|float|complex|bool|str|bytes|bytearray|list|tuple|dict|set|frozenset|object)"
)
TYPICAL = {"model", "encoder.embed_tokens.weight"}  # strings in every checkpoint
SETTINGS = {"args", "cfg"}  # and at least one of these
OPEN, REFERENCE = "???", "${"  # omegaconf's missing value, and its reference to another setting


@dataclass(frozen=True)
class FairseqFiles:
    """The checkpoint and the files near it."""

    model: Path
    dictionaries: dict[str, Path]  # by language
    codes: list[Path]
    pieces: list[Path]  # SentencePiece models


def find_model(path: Path) -> Path | None:
    """Return the checkpoint file of a path, or None."""
    if path.is_file():
        return path if path.suffix == ".pt" else None
    for folder in (path, path / CHECKPOINTS):
        files = sorted(folder.glob("*.pt"))
        preferred = [folder / name for name in PREFERRED if folder / name in files]
        if preferred or len(files) == 1:
            return (preferred or files)[0]
        if files:
            names = ", ".join(file.name for file in files)
            raise CheckpointError(f"{folder} has {names}; name the file to export")
    return None


def find_files(path: Path) -> FairseqFiles:
    """Find the checkpoint, its dictionaries and its tokenizer files."""
    model = find_model(path)
    if model is None:
        raise CheckpointError(f"{path} is not a checkpoint of fairseq, which is a file {PREFERRED[0]} or another .pt")
    files = _files_near(model)
    dictionaries = [file for file in files if DICTIONARY.fullmatch(file.name)]
    folders = {file.parent for file in dictionaries}
    if len(folders) > 1:
        names = ", ".join(str(folder) for folder in sorted(folders))
        raise CheckpointError(f"there are dictionaries in {names}; keep only those that belong to {model.name}")
    near = [file for file in files if file.parent in {*folders, model.absolute().parent}]
    return FairseqFiles(
        model=model,
        dictionaries={match[1]: file for file in dictionaries if (match := DICTIONARY.fullmatch(file.name))},
        codes=[file for file in near if CODES.fullmatch(file.name)],
        pieces=[file for file in near if file.suffix in SENTENCEPIECE],
    )


def _files_near(model: Path) -> list[Path]:
    """List the files near a checkpoint; from one level up if its folder has checkpoints but no dictionary."""
    folder = model.absolute().parent
    files = list(_files_below(folder))
    if any(DICTIONARY.fullmatch(file.name) for file in files) or not folder.name.startswith("checkpoint"):
        return files
    return list(_files_below(folder.parent))


def _files_below(root: Path) -> Iterator[Path]:
    """Yield the files of a folder and of two more levels."""
    for pattern in ("*", "*/*", "*/*/*"):
        yield from (file for file in sorted(root.glob(pattern)) if file.is_file())


class StandIn:
    """Replaces an object that is not created, and keeps the arguments of its class."""

    name = ""
    arguments: tuple[Any, ...]
    state: Any

    def __new__(cls, *arguments: Any) -> "StandIn":
        stand_in = super().__new__(cls)
        stand_in.arguments, stand_in.state = arguments, None
        return stand_in

    def __setstate__(self, state: Any) -> None:
        self.state = state


@dataclass(frozen=True)
class PickleScan:
    """The names of classes and functions in a pickle, and the other strings."""

    names: set[str]
    strings: set[str]


def looks_like_fairseq(path: Path) -> bool:
    """Return whether a file has the strings of a fairseq checkpoint."""
    try:
        strings = scan_pickle(path).strings
    except CheckpointError:
        return False
    return strings >= TYPICAL and not strings.isdisjoint(SETTINGS)


def read_pickled(path: Path) -> dict[str, Any]:
    """Read a checkpoint, with stand-ins for objects that are neither tensors nor plain values."""
    names = {name for name in scan_pickle(path).names if not OF_TORCH.fullmatch(name)}
    unknown = sorted(name for name in names if not KNOWN.fullmatch(name))
    if unknown:
        raise CheckpointError(
            f"{path} would call {', '.join(unknown)} when it is loaded, which no checkpoint of fairseq does; "
            "code from a file is never run"
        )
    stand_ins = [(type("StandIn", (StandIn,), {"name": name}), name) for name in sorted(names)]
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(stand_ins):  # type: ignore[arg-type]
            warnings.simplefilter("ignore")  # about old storages and protocols
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=is_archive(path))
    except Exception as error:  # torch.load raises many types for broken files
        raise CheckpointError(f"{path} is broken or not a checkpoint of fairseq ({_first_line(error)})") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is not a checkpoint of fairseq: it holds {type(content).__name__}, not a dict")
    return content


def scan_pickle(path: Path) -> PickleScan:
    """Read the names and strings of a checkpoint from its opcodes, without loading it."""
    names: set[str] = set()
    strings: set[str] = set()
    try:
        with _pickles(path) as stream:
            for _ in range(1 if is_archive(path) else PICKLES):
                for opcode, argument, _ in pickletools.genops(stream):
                    if opcode.name in ("GLOBAL", "INST"):
                        names.add(_python3_name(str(argument)))
                    elif opcode.name == "STACK_GLOBAL":  # protocol 4, which torch.save does not write
                        raise ValueError("it has names that are built while it is loaded")
                    elif isinstance(argument, str):
                        strings.add(argument)
    except (OSError, ValueError, KeyError, NotImplementedError, RuntimeError) as error:
        raise CheckpointError(f"{path} cannot be read as a file of torch.save ({error})") from None
    return PickleScan(names, strings)


@contextmanager
def _pickles(path: Path) -> Iterator[IO[bytes]]:
    """Open the pickles of a file of either format as one stream."""
    if not is_archive(path):
        with path.open("rb") as file:
            yield file
        return
    with closing(BytesIO(read_pickle_bytes(path))) as stream:
        yield stream


def _python3_name(name: str) -> str:
    """Return the dotted name of a module and a name in it as in Python 3."""
    module, _, inner = name.partition(" ")
    module, inner = NAME_MAPPING.get((module, inner), (IMPORT_MAPPING.get(module, module), inner))
    return f"{module}.{inner}"


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def plain(value: Any) -> Any:
    """Convert settings to dicts, lists, strings and numbers; everything else, open values and references are None."""
    if isinstance(value, StandIn):
        return plain(_content(value))
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str) and (value == OPEN or value.startswith(REFERENCE)):
        return None
    return value if isinstance(value, str | int | float | bool) else None


def plain_dict(value: Any) -> dict[str, Any]:
    """Convert a section of the settings; a string is the name of one."""
    section = plain(value)
    if isinstance(section, str):
        return {"_name": section}
    return section if isinstance(section, dict) else {}


def _content(value: StandIn) -> Any:
    """Return the settings in a stand-in: omegaconf keeps a value in ``_val``, items in ``_content``."""
    if isinstance(value.state, dict):
        if value.name == "argparse.Namespace":
            return value.state
        return value.state.get("_content", value.state.get("_val"))
    is_enum = value.name.startswith("fairseq") and len(value.arguments) == 1
    return value.arguments[0] if is_enum else None
