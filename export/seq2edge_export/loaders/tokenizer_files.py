"""Find, check, convert and name the tokenizer files that go into a bundle."""

import atexit
import json
import re
import shutil
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seq2edge.config.tokenizer import WITH_CODES, Split, Tokenization, VocabularyKind
from seq2edge.errors import CheckpointError, DataError, UsageError
from seq2edge.text.vocabularies import load_sentencepiece

SENTENCEPIECE = (".model", ".spm")
SIDES = {"source": re.compile(r"(src|source)[._-]"), "target": re.compile(r"(tgt|trg|target)[._-]")}

KINDS: dict[str, VocabularyKind] = {"spaces": "words", "characters": "characters", "bpe": "bpe", "spm": "pieces"}


@dataclass(frozen=True)
class TokenizerChoice:
    """How texts become the tokens of a vocabulary, with the files of ``bpe`` and ``pieces`` for source and target."""

    kind: VocabularyKind
    codes: tuple[Path, Path] | None = None
    split: Split = "spaces"

    @classmethod
    def parse(cls, text: str) -> "TokenizerChoice":
        """Read the option ``--tokenizer``."""
        name, _, files = text.partition(":")
        kind, paths = KINDS.get(name), [Path(file).absolute() for file in files.split(",") if file]
        if kind is None or len(paths) not in ((1, 2) if kind in WITH_CODES else (0,)):
            raise UsageError(
                f"the tokenizer {text!r} is not known: expected spaces, characters, bpe:CODES or spm:MODEL, "
                "or two files, spm:SOURCE,TARGET"
            )
        missing = [str(path) for path in paths if not path.is_file()]
        if missing:
            raise UsageError(f"the tokenizer {text!r} names {' and '.join(missing)}, which is not a file")
        # tokens may hold other white space, in CTranslate2 and subword-nmt
        return cls(kind, (paths[0], paths[-1]) if paths else None, "blanks" if kind in ("words", "bpe") else "spaces")

    @property
    def is_plain(self) -> bool:
        """Whether texts are split without a model, at spaces or into characters."""
        return self.codes is None

    @property
    def code_names(self) -> tuple[str, str]:
        return (str(self.codes[0]), str(self.codes[1])) if self.codes else ("", "")

    def check(self, vocabulary: Collection[str], where: str) -> None:
        """Refuse the SentencePiece model of another vocabulary."""
        if self.kind == "pieces" and self.codes:
            check_sentencepiece_matches(self.codes[0], vocabulary, where)


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
        "sentencepiece.model, or to source.spm and target.spm, or tell with --tokenizer how to split texts"
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
