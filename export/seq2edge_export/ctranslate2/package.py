"""Where the files of a CTranslate2 model are: in one folder, or in a package of Argos Translate; needs nothing."""

import atexit
import json
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, ZipFile, ZipInfo

from seq2edge.errors import CheckpointError

MODEL = "model.bin"
METADATA, README, INNER = "metadata.json", "README.md", "model"
ARGOS = ".argosmodel"
WANTED = re.compile(
    r"(.*/)?(model\.bin|config\.json|metadata\.json|README\.md|.*_vocabulary\.(json|txt)|.*\.(model|spm))"
)
PIECES = (".model", ".spm")  # how SentencePiece models end
SIDES = {"source": re.compile(r"(src|source)[._-]"), "target": re.compile(r"(tgt|trg|target)[._-]")}
LARGEST = 32  # times what is packed: weights cannot be packed much, and a trap can
SMALL = 10_000_000  # bytes of which nobody takes harm
ATTRIBUTION = 2000  # characters of a package's README


@dataclass(frozen=True)
class Package:
    """The files of a model, and what a package says about it."""

    model: Path  # the folder with model.bin
    source_pieces: Path  # SentencePiece models
    target_pieces: Path
    languages: tuple[str, str] = ("", "")
    attribution: str = ""


def is_package(path: Path) -> bool:
    """Whether it is a model folder, or an Argos package as a file or unpacked."""
    return path.suffix == ARGOS or (path / MODEL).is_file() or (path / INNER / MODEL).is_file()


def open_package(path: Path) -> Package:
    """Find the files; those of a packed package are unpacked for as long as the program runs."""
    folder = unpack(path) if path.is_file() else path
    model = folder if (folder / MODEL).is_file() else folder / INNER
    source, target = find_pieces(folder, model)
    return Package(model, source, target, _languages(folder / METADATA), _attribution(folder))


def unpack(path: Path) -> Path:
    """The folder of a packed Argos package, with what is needed of it."""
    folder = Path(tempfile.mkdtemp(prefix="seq2edge-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        with ZipFile(path) as archive:
            members = list(_wanted(archive))
            size, free = sum(member.file_size for member in members), shutil.disk_usage(folder).free
            packed = sum(member.compress_size for member in members)
            if size > LARGEST * packed + SMALL:
                raise CheckpointError(
                    f"{path} has {packed:,} bytes that become {size:,}, which no package of weights does"
                )
            if size > free:
                raise CheckpointError(f"{path} takes {size:,} bytes unpacked, but {folder.parent} has {free:,} left")
            archive.extractall(folder, members)
    except (BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error) as error:
        raise CheckpointError(f"{path} cannot be unpacked as an Argos package, which is a zip file ({error})") from None
    found = sorted(folder.glob(f"**/{INNER}/{MODEL}"))
    if len(found) != 1:
        raise CheckpointError(f"{path} holds {len(found)} files named {INNER}/{MODEL}, but an Argos package has one")
    return found[0].parent.parent


def _wanted(archive: ZipFile) -> Iterator[ZipInfo]:
    """What a model is made of; a package brings other things too, such as sentence splitters."""
    for member in archive.infolist():
        if len(PurePosixPath(member.filename).parts) <= 3 and WANTED.fullmatch(member.filename):
            yield member


def find_pieces(*folders: Path) -> tuple[Path, Path]:
    """One SentencePiece model for both sides, or one for each, told by their names."""
    for folder in folders:
        found = sorted(path for path in folder.iterdir() if path.suffix in PIECES and path.is_file())
        sides = [[path for path in found if SIDES[side].match(path.name.lower())] for side in SIDES]
        if len(found) == 1:
            return found[0], found[0]
        if [len(side) for side in sides] == [1, 1]:
            return sides[0][0], sides[1][0]
        if found:
            names = ", ".join(path.name for path in found)
            raise CheckpointError(f"{folder} has {names}; leave one SentencePiece model, or source.spm and target.spm")
    raise CheckpointError(
        f"{folders[0]} has no SentencePiece model; copy there the one that the model was trained with, "
        "as sentencepiece.model, or as source.spm and target.spm"
    )


def _languages(path: Path) -> tuple[str, str]:
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON in UTF-8 ({error})") from None
    codes = [content.get(key) if isinstance(content, dict) else None for key in ("from_code", "to_code")]
    source, target = (code if isinstance(code, str) else "" for code in codes)
    return source, target


def _attribution(folder: Path) -> str:
    """What a package says in its README: whom to name, and the terms."""
    if not (folder / README).is_file() or not (folder / METADATA).is_file():
        return ""
    return " ".join((folder / README).read_text(encoding="utf-8", errors="replace").split())[:ATTRIBUTION]
