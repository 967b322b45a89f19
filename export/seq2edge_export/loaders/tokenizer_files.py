"""Find, check, convert and name the tokenizer files that go into a bundle."""

import atexit
import json
import re
import shutil
import tempfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from seq2edge.config.tokenizer import Tokenization
from seq2edge.errors import CheckpointError, DataError
from seq2edge.text.vocabularies import load_sentencepiece

SENTENCEPIECE = (".model", ".spm")
SIDES = {"source": re.compile(r"(src|source)[._-]"), "target": re.compile(r"(tgt|trg|target)[._-]")}


def with_bundle_names(tokenization: Tokenization, folder: Path) -> tuple[Tokenization, dict[str, Path]]:
    """Replace the paths in a tokenization by the file names of a bundle, and return the files by these names."""
    source, target = _bundle_names("tokenizer", tokenization.source, tokenization.target)
    source_codes, target_codes = _bundle_names("codes", tokenization.source_codes, tokenization.target_codes)
    renamed = replace(tokenization, source=source, target=target, source_codes=source_codes, target_codes=target_codes)
    pairs = (
        (source, tokenization.source),
        (target, tokenization.target),
        (source_codes, tokenization.source_codes),
        (target_codes, tokenization.target_codes),
    )
    return renamed, {name: folder / path for name, path in pairs if name}


def _bundle_names(stem: str, source: str, target: str) -> tuple[str, str]:
    """Return names that keep the suffixes: one name for a file that both sides share."""
    if source == target:
        return (stem + Path(source).suffix,) * 2 if source else ("", "")
    return f"source.{stem}{Path(source).suffix}", f"target.{stem}{Path(target).suffix}"


def write_temporary_json(name: str, content: Any) -> Path:
    """Write a JSON file that is deleted when the program ends."""
    folder = Path(tempfile.mkdtemp(prefix="seq2edge-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / name
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path


def find_sentencepiece(*folders: Path) -> tuple[Path, Path]:
    """Find one SentencePiece model for both sides, or one for each, recognized by their names."""
    for folder in folders:
        models = sorted(path for path in folder.iterdir() if path.suffix in SENTENCEPIECE and path.is_file())
        sides = [[path for path in models if SIDES[side].match(path.name.lower())] for side in SIDES]
        if len(models) == 1:
            return models[0], models[0]
        if [len(side) for side in sides] == [1, 1]:
            return sides[0][0], sides[1][0]
        if models:
            names = ", ".join(path.name for path in models)
            raise CheckpointError(f"{folder} has {names}; keep one SentencePiece model, or source.spm and target.spm")
    raise CheckpointError(
        f"{folders[0]} has no SentencePiece model; copy the one that the model was trained with to "
        "sentencepiece.model, or to source.spm and target.spm"
    )


def check_sentencepiece_matches(model: Path, vocabulary: Collection[str], where: str) -> None:
    """Refuse the SentencePiece model of another vocabulary, with which nearly every token would be unknown."""
    try:
        pieces = load_sentencepiece(model)
    except DataError as error:
        raise CheckpointError(str(error)) from None
    size, tokens = pieces.get_piece_size(), set(vocabulary)
    known = sum(pieces.piece(number) in tokens for number in range(size))
    if known < size / 2:
        raise CheckpointError(
            f"{model} is not the SentencePiece model of {where}: {size - known:,} of its {size:,} pieces are not in it"
        )
