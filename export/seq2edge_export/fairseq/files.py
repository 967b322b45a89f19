"""Where the files of a fairseq model are: beside the checkpoint, or where fairseq's scripts put them; needs nothing.

::

    folder/                            or  folder/
    ├── model.pt                           ├── checkpoints/checkpoint_best.pt
    ├── dict.de.txt, dict.en.txt           └── data/
    └── bpecodes                               ├── dict.de.txt, dict.en.txt
                                               └── bpe.code

Dictionaries and the rest may be up to two folders further down, as in ``data-bin/wmt.en-de``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seq2edge.errors import CheckpointError

CHECKPOINTS = "checkpoints"
FIRST = ("model.pt", "checkpoint_best.pt", "checkpoint_last.pt")  # of several, in this order
DICTIONARY = re.compile(r"dict\.(.+)\.txt")
CODES = re.compile(r"(?:.*[._-])?(?:bpe[._-]?)?codes?(?:[._-].*)?", re.IGNORECASE)  # bpecodes, code, ende30k.bpe.code
PIECES = (".model", ".spm")


@dataclass(frozen=True)
class Files:
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


def find_files(path: Path) -> Files:
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
    return Files(
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
