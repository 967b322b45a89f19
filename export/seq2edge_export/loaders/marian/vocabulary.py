"""Marian's vocabularies: SentencePiece models with their own ids, or lists of tokens."""

import json
from dataclasses import dataclass
from pathlib import Path

from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError, DataError
from seq2edge.text.vocabularies import load_sentencepiece
from seq2edge_export.loaders.hugging_face.tokenizer import made_file
from seq2edge_export.loaders.marian.config import read_yaml
from seq2edge_export.loaders.marian.files import PIECES, MarianFiles

# mark, what Nematus called it, and its usual id
END, UNKNOWN = ("</s>", "eos", 0), ("<unk>", "UNK", 1)


@dataclass(frozen=True)
class MarianText:
    """How texts become ids."""

    rules: Tokenization
    tokens: SpecialTokens


@dataclass(frozen=True)
class _Side:
    """The ids of one vocabulary that matter, and how many there are."""

    eos: int
    unk: int
    size: int
    list: Path | None = None  # a list of tokens, as JSON


def read_text(files: MarianFiles, sizes: tuple[int, int]) -> MarianText:
    """The rules and the marks; whatever does not fit is one error."""
    sides = [_read(path) for path in dict.fromkeys(files.vocabularies)]
    source, target = sides[0], sides[-1]
    if (source.eos, source.unk) != (target.eos, target.unk):
        raise CheckpointError(
            f"end and unknown have the ids {(source.eos, source.unk)} and {(target.eos, target.unk)} in "
            f"{' and '.join(path.name for path in files.vocabularies)}, but the same for both are wanted"
        )
    if source.size > sizes[0] or target.size > sizes[1]:
        raise CheckpointError(
            f"{' and '.join(dict.fromkeys(path.name for path in files.vocabularies))} have {source.size:,} and "
            f"{target.size:,} tokens, but the model has {sizes[0]:,} and {sizes[1]:,}"
        )
    tokens = SpecialTokens(pad=source.eos, bos=source.eos, eos=source.eos, unk=source.unk)  # its start has no vector
    return MarianText(_rules(files, source, target), tokens)


def _rules(files: MarianFiles, source: _Side, target: _Side) -> Tokenization:
    if source.list is None and target.list is None:
        return Tokenization(source=str(files.vocabularies[0]), target=str(files.vocabularies[1]))
    if source.list is None or target.list is None:
        raise CheckpointError("one vocabulary is a SentencePiece model and the other a list, which cannot be mixed")
    if files.pieces is None:
        return Tokenization(source=str(source.list), target=str(target.list), kind="words")  # cut already, as in Marian
    return Tokenization(
        source=str(source.list),
        target=str(target.list),
        kind="pieces",
        source_codes=str(files.pieces[0]),
        target_codes=str(files.pieces[1]),
        silent=(target.unk,),
    )


def _read(path: Path) -> _Side:
    if not path.is_file():
        raise CheckpointError(f"{path} is a vocabulary that is named, but it is not there")
    return _read_pieces(path) if path.suffix in PIECES else _read_list(path)


def _read_pieces(path: Path) -> _Side:
    try:
        model = load_sentencepiece(path).model
    except DataError as error:
        raise CheckpointError(str(error)) from None
    if model.eos_id() < 0 or model.unk_id() < 0:
        raise CheckpointError(f"{path} has no end mark or no mark for what is unknown, so Marian cannot use it")
    return _Side(model.eos_id(), model.unk_id(), model.get_piece_size())


def _read_list(path: Path) -> _Side:
    ids = _ids(path)
    return _Side(
        _mark(path, ids, *END), _mark(path, ids, *UNKNOWN), max(ids.values()) + 1, made_file(f"{path.stem}.json", ids)
    )


def _ids(path: Path) -> dict[str, int]:
    if path.suffix == ".json":
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{path} cannot be read as JSON ({error})") from None
    else:
        content = read_yaml(path)
    numbers = content.values() if isinstance(content, dict) else [""]
    if not all(isinstance(number, int | str) and str(number).isascii() and str(number).isdigit() for number in numbers):
        raise CheckpointError(f"{path} is not a vocabulary: it should say the id of every token")
    ids = {token: int(number) for token, number in content.items()}
    if not ids or len(set(ids.values())) < len(ids):
        raise CheckpointError(f"{path} is not a vocabulary: every token should have an id of its own")
    return ids


def _mark(path: Path, ids: dict[str, int], name: str, old: str, number: int) -> int:
    """The id of a mark; an old vocabulary has another name for it, or leaves its id free."""
    if ids.get(old) == number or number not in ids.values():
        return number
    if name not in ids:
        raise CheckpointError(f"{path} has no {name!r}, which Marian needs")
    return ids[name]
