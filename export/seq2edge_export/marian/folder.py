"""Which files belong to a Marian model: itself, the settings of its search, its vocabularies; needs nothing."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from seq2edge.errors import CheckpointError
from seq2edge_export.marian.archive import holds_marian
from seq2edge_export.marian.binary import begins_as_marian
from seq2edge_export.marian.items import BIN, NPZ
from seq2edge_export.marian.settings import Mapping, Settings, read_yaml

CONFIGS = ("decoder.yml", "config.yml", "*.decoder.yml", "config.*.yml")  # in this order
PIECES, LISTS = (".spm",), (".yml", ".yaml", ".json")
SIDES = (re.compile(r"(^|[._-])(src|source)(?=vocab|[._-])"), re.compile(r"(^|[._-])(trg|tgt|target)(?=vocab|[._-])"))


@dataclass(frozen=True)
class Files:
    """The files by their paths."""

    model: Path
    search: Mapping  # what the settings beside the model say; empty if there are none
    vocabularies: tuple[Path, Path]
    pieces: tuple[Path, Path] | None  # SentencePiece models that cut for vocabularies which are lists


def is_model(path: Path) -> bool:
    """Whether it is a model file, or a folder that holds one."""
    return _is_model_file(path) if path.is_file() else path.is_dir() and bool(_models(path))


def find_files(path: Path) -> Files:
    folder = path.parent if path.is_file() else path
    config = _config(folder, path)
    search = read_yaml(config) if config else {}
    model = path if path.is_file() else _model(folder, search)
    source, target = _vocabularies(folder, search)
    is_list = any(file.suffix not in PIECES for file in (source, target))
    return Files(model, search, (source, target), _pair(_with(folder, PIECES)) if is_list else None)


def _config(folder: Path, path: Path) -> Path | None:
    names = (f"{path.name}.decoder.yml", *CONFIGS) if path.is_file() else CONFIGS
    return next((found for name in names for found in sorted(folder.glob(name)) if found.is_file()), None)


def _model(folder: Path, search: Mapping) -> Path:
    named = Settings(search, []).texts("models")
    if len(named) > 1:
        raise CheckpointError(f"{folder} is an ensemble of {len(named)} models; name the file of one of them")
    found = [_beside(folder, named[0])] if named else _models(folder)
    if len(found) != 1 or not found[0].is_file():
        names = ", ".join(path.name for path in found) or "none"
        raise CheckpointError(f"{folder} should hold one model of Marian (.npz or .bin), but there is {names}")
    return found[0]


def _models(folder: Path) -> list[Path]:
    return [path for path in _with(folder, (NPZ, BIN)) if _is_model_file(path)]


def _is_model_file(path: Path) -> bool:
    return holds_marian(path) if path.suffix == NPZ else path.suffix == BIN and begins_as_marian(path)


def _vocabularies(folder: Path, search: Mapping) -> tuple[Path, Path]:
    """The two that the settings name, else what is in the folder: one for both sides, or one a side."""
    named = [_beside(folder, name) for name in Settings(search, []).texts("vocabs")]
    if len(named) == 2:
        return named[0], named[1]
    if named:
        raise CheckpointError(f"{folder} names {len(named)} vocabularies, but there should be a source and a target")
    lists = [path for path in _with(folder, LISTS) if "vocab" in path.name]
    found = _pair(lists) or _pair(_with(folder, PIECES))
    if found is None:
        raise CheckpointError(
            f"{folder} has no vocabulary: one .spm or .yml file is wanted whose name holds 'vocab', or two with 'src' "
            "and 'trg' in their names, or a decoder.yml that names them"
        )
    return found


def _pair(found: list[Path]) -> tuple[Path, Path] | None:
    """One file for both sides, or those whose names tell the side."""
    if len(found) == 1:
        return found[0], found[0]
    sides = [[path for path in found if side.search(path.name.lower())] for side in SIDES]
    return (sides[0][0], sides[1][0]) if [len(side) for side in sides] == [1, 1] else None


def _with(folder: Path, suffixes: Iterable[str]) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in suffixes and path.is_file())


def _beside(folder: Path, name: str) -> Path:
    """A file of the folder: by its path from there, or by its name alone, as models travel without their paths."""
    if not Path(name).is_absolute() and ".." not in Path(name).parts and (folder / name).is_file():
        return folder / name
    return folder / PureWindowsPath(PurePosixPath(name).name).name
