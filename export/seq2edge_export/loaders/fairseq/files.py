"""Where the files of a fairseq model are: beside the checkpoint, or where fairseq's scripts put them.

::

    folder/                            or  folder/
    ├── model.pt                           ├── checkpoints/checkpoint_best.pt
    ├── dict.de.txt, dict.en.txt           └── data/
    └── bpecodes                               ├── dict.de.txt, dict.en.txt
                                               └── bpe.code

Dictionaries and the rest may be up to two folders further down, as in ``data-bin/wmt.en-de``.

Read a checkpoint of fairseq and run nothing that was pickled into it.

Besides tensors there are the settings, as an ``argparse.Namespace`` or as objects of omegaconf, and what training left
behind. ``torch.load(weights_only=True)`` makes tensors and plain containers of a pickle and nothing else. Every other
name that fairseq's checkpoints ask for gets a class of our own that keeps what it is given: no module is imported for
it, and none of its code is called. A name that they have no use for is refused before anything is loaded.

Settings as plain values, whether they were an argparse namespace, an object of omegaconf or a dict.

A value of omegaconf is under ``_val``, the items of a dict or a list of it are under ``_content``. What is left open
(``???``) or refers to another setting (``${model.decoder.embed_dim}``) counts as not given.
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
from zipfile import BadZipFile, ZipFile

import torch

from seq2edge.errors import CheckpointError

CHECKPOINTS = "checkpoints"
FIRST = ("model.pt", "checkpoint_best.pt", "checkpoint_last.pt")  # of several, in this order
DICTIONARY = re.compile(r"dict\.(.+)\.txt")
CODES = re.compile(r"(?:.*[._-])?(?:bpe[._-]?)?codes?(?:[._-].*)?", re.IGNORECASE)  # bpecodes, code, ende30k.bpe.code
PIECES = (".model", ".spm")


@dataclass(frozen=True)
class FairseqFiles:
    """The checkpoint, and what was found around it."""

    model: Path
    dictionaries: dict[str, Path]  # by language
    codes: list[Path]
    pieces: list[Path]  # SentencePiece models


def find_model(path: Path) -> Path | None:
    """The checkpoint that a path names or holds, if any."""
    if path.is_file():
        return path if path.suffix == ".pt" else None
    for folder in (path, path / CHECKPOINTS):
        found = sorted(folder.glob("*.pt"))
        named = [folder / name for name in FIRST if folder / name in found]
        if named or len(found) == 1:
            return (named or found)[0]
        if found:
            names = ", ".join(file.name for file in found)
            raise CheckpointError(f"{folder} has {names}; name the file that is to be exported")
    return None


def find_files(path: Path) -> FairseqFiles:
    """The checkpoint with its dictionaries and the files of its tokenizer."""
    model = find_model(path)
    if model is None:
        raise CheckpointError(f"{path} is no checkpoint of fairseq, which is a file {FIRST[0]} or another .pt")
    around = _around(model)
    dictionaries = [file for file in around if DICTIONARY.fullmatch(file.name)]
    folders = {file.parent for file in dictionaries}
    if len(folders) > 1:
        names = ", ".join(str(folder) for folder in sorted(folders))
        raise CheckpointError(f"there are dictionaries in {names}; leave those that belong to {model.name}")
    near = [file for file in around if file.parent in {*folders, model.absolute().parent}]
    return FairseqFiles(
        model=model,
        dictionaries={match[1]: file for file in dictionaries if (match := DICTIONARY.fullmatch(file.name))},
        codes=[file for file in near if CODES.fullmatch(file.name)],
        pieces=[file for file in near if file.suffix in PIECES],
    )


def _around(model: Path) -> list[Path]:
    """The files near a checkpoint; if there is no dictionary and its folder is for checkpoints alone, one level up."""
    folder = model.absolute().parent
    found = list(_near(folder))
    if any(DICTIONARY.fullmatch(file.name) for file in found) or not folder.name.startswith("checkpoint"):
        return found
    return list(_near(folder.parent))


def _near(root: Path) -> Iterator[Path]:
    """The files of a folder and of two more levels."""
    for pattern in ("*", "*/*", "*/*/*"):
        yield from (file for file in sorted(root.glob(pattern)) if file.is_file())


ZIP = b"PK\x03\x04"
PICKLES = 4  # of the format before zip files: magic number, protocol, machine, content; storages follow
OF_TORCH = re.compile(r"torch\..*|collections\.(OrderedDict|Counter)|_codecs\.encode")  # which it makes, or refuses
KNOWN = re.compile(
    r"argparse\.Namespace|(fairseq\w*|omegaconf|numpy|typing|enum)\..+|pathlib\.\w+|collections\.defaultdict|"
    r"_?operator\.getitem|builtins\.(int|float|complex|bool|str|bytes|bytearray|list|tuple|dict|set|frozenset|object)"
)
LIKE_OURS = {"model", "encoder.embed_tokens.weight"}  # texts that a checkpoint has
SETTINGS = {"args", "cfg"}  # and of these one


class StandIn:
    """In the place of an object that is not made: what its class would have been given."""

    name = ""
    arguments: tuple[Any, ...]
    state: Any

    def __new__(cls, *arguments: Any) -> "StandIn":
        made = super().__new__(cls)
        made.arguments, made.state = arguments, None
        return made

    def __setstate__(self, state: Any) -> None:
        self.state = state


@dataclass(frozen=True)
class Mentioned:
    """What a pickle names, and the texts in it."""

    names: set[str]
    texts: set[str]


def looks_like_fairseq(path: Path) -> bool:
    """Whether a file is a checkpoint of fairseq, by the texts in it."""
    try:
        texts = mentioned(path).texts
    except CheckpointError:
        return False
    return texts >= LIKE_OURS and not texts.isdisjoint(SETTINGS)


def read_pickled(path: Path) -> dict[str, Any]:
    """The content of a checkpoint, with stand-ins for what are neither tensors nor plain values."""
    names = {name for name in mentioned(path).names if not OF_TORCH.fullmatch(name)}
    strange = sorted(name for name in names if not KNOWN.fullmatch(name))
    if strange:
        raise CheckpointError(
            f"{path} wants to call {', '.join(strange)} when it is loaded, which no checkpoint of fairseq does; "
            "code from a file is never run"
        )
    stand_ins = [(type("StandIn", (StandIn,), {"name": name}), name) for name in sorted(names)]
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(stand_ins):  # type: ignore[arg-type]
            warnings.simplefilter("ignore")  # of old storages and protocols
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=_is_zip(path))
    except Exception as error:  # a broken file makes torch.load raise whatever its reader meets
        raise CheckpointError(f"{path} is broken, or is no checkpoint of fairseq ({_first_line(error)})") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is no checkpoint of fairseq: it holds {type(content).__name__}, not a dict")
    return content


def mentioned(path: Path) -> Mentioned:
    """The names and texts in a checkpoint, read from its opcodes without loading it."""
    names: set[str] = set()
    texts: set[str] = set()
    try:
        with _pickles(path) as stream:
            for _ in range(1 if _is_zip(path) else PICKLES):
                for opcode, argument, _ in pickletools.genops(stream):
                    if opcode.name in ("GLOBAL", "INST"):
                        names.add(_modern(str(argument)))
                    elif opcode.name == "STACK_GLOBAL":  # of protocol 4, which torch.save does not write
                        raise ValueError("it has names that are put together as it is loaded")
                    elif isinstance(argument, str):
                        texts.add(argument)
    except (OSError, BadZipFile, ValueError, KeyError, NotImplementedError, RuntimeError) as error:
        raise CheckpointError(f"{path} cannot be read as a file of torch.save ({error})") from None
    return Mentioned(names, texts)


@contextmanager
def _pickles(path: Path) -> Iterator[IO[bytes]]:
    """The pickles of a file of either format, one behind the other."""
    if not _is_zip(path):
        with path.open("rb") as file:
            yield file
        return
    with ZipFile(path) as archive:
        member = next((one for one in archive.infolist() if one.filename.endswith("/data.pkl")), None)
        if member is None or member.file_size > path.stat().st_size:  # stored as it is, never packed
            raise ValueError("it has no data.pkl")
        with closing(BytesIO(archive.read(member))) as stream:
            yield stream


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(ZIP)) == ZIP


def _modern(name: str) -> str:
    """A module and a name in it as Python 3 writes them, with a dot between."""
    module, _, inner = name.partition(" ")
    module, inner = NAME_MAPPING.get((module, inner), (IMPORT_MAPPING.get(module, module), inner))
    return f"{module}.{inner}"


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


OPEN, REFERENCE = "???", "${"


def plain(value: Any) -> Any:
    """Dicts, lists, texts, numbers and None; anything else is None."""
    if isinstance(value, StandIn):
        return plain(_inside(value))
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str) and (value == OPEN or value.startswith(REFERENCE)):
        return None
    return value if isinstance(value, str | int | float | bool) else None


def plain_dict(value: Any) -> dict[str, Any]:
    """The same for what should be a dict; a text is the name of one."""
    found = plain(value)
    if isinstance(found, str):
        return {"_name": found}
    return found if isinstance(found, dict) else {}


def _inside(value: StandIn) -> Any:
    if isinstance(value.state, dict):
        if value.name == "argparse.Namespace":
            return value.state
        return value.state.get("_content", value.state.get("_val"))
    is_choice = value.name.startswith("fairseq") and len(value.arguments) == 1
    return value.arguments[0] if is_choice else None
