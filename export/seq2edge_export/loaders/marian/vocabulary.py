"""Read Marian's vocabularies, which are SentencePiece models or token lists (YAML or JSON)."""

import json
from dataclasses import dataclass
from pathlib import Path

from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError, DataError
from seq2edge.text.vocabularies import load_sentencepiece
from seq2edge_export.loaders.marian.config import read_yaml
from seq2edge_export.loaders.marian.files import SENTENCEPIECE, MarianFiles
from seq2edge_export.loaders.tokenizer_files import TokenizerChoice, write_temporary_json

# token, its name in Nematus, and its usual id
END, UNKNOWN = ("</s>", "eos", 0), ("<unk>", "UNK", 1)
FACTORED = ".fsv"


@dataclass(frozen=True)
class _Side:
    """The special ids and the size of one vocabulary."""

    eos: int
    unk: int
    size: int
    list: Path | None = None  # a token list as JSON; None for a SentencePiece model


def unsupported_vocabularies(files: MarianFiles) -> list[str]:
    return ["factored vocabularies"] if any(path.suffix == FACTORED for path in files.vocabularies) else []


def read_tokenization(
    files: MarianFiles, sizes: tuple[int, int], choice: TokenizerChoice | None = None
) -> tuple[Tokenization, SpecialTokens]:
    """Read the vocabularies and check them against the vocabulary sizes of the model."""
    sides = [_read(path) for path in dict.fromkeys(files.vocabularies)]
    source, target = sides[0], sides[-1]
    if (source.eos, source.unk) != (target.eos, target.unk):
        raise CheckpointError(
            f"{' and '.join(path.name for path in files.vocabularies)} should have the same ids for the end and the "
            f"unknown token, but have {(source.eos, source.unk)} and {(target.eos, target.unk)}"
        )
    if source.size > sizes[0] or target.size > sizes[1]:
        raise CheckpointError(
            f"{' and '.join(dict.fromkeys(path.name for path in files.vocabularies))} have {source.size:,} and "
            f"{target.size:,} tokens, but the model has {sizes[0]:,} and {sizes[1]:,}"
        )
    # the start of the decoder has no embedding, so any id will do
    tokens = SpecialTokens(pad=source.eos, bos=source.eos, eos=source.eos, unk=source.unk)
    return _tokenization(files, source, target, choice), tokens


def _tokenization(files: MarianFiles, source: _Side, target: _Side, choice: TokenizerChoice | None) -> Tokenization:
    if choice and (source.list is None or target.list is None):
        raise CheckpointError(f"{files.vocabularies[0].name} is a SentencePiece model itself: leave out --tokenizer")
    if source.list is None and target.list is None:
        return Tokenization(source=str(files.vocabularies[0]), target=str(files.vocabularies[1]))
    if source.list is None or target.list is None:
        raise CheckpointError(
            "one vocabulary is a SentencePiece model and the other a token list; they cannot be mixed"
        )
    # without a model texts are already tokenized, as in Marian
    choice = choice or (TokenizerChoice("pieces", files.pieces) if files.pieces else TokenizerChoice("words"))
    source_codes, target_codes = choice.code_names
    return Tokenization(
        source=str(source.list),
        target=str(target.list),
        kind=choice.kind,
        source_codes=source_codes,
        target_codes=target_codes,
        split=choice.split,
        silent=(target.unk,) if choice.kind == "pieces" else (),
    )


def _read(path: Path) -> _Side:
    if not path.is_file():
        raise CheckpointError(f"{path} is named as a vocabulary, but does not exist")
    return _read_pieces(path) if path.suffix in SENTENCEPIECE else _read_list(path)


def _read_pieces(path: Path) -> _Side:
    try:
        model = load_sentencepiece(path).model
    except DataError as error:
        raise CheckpointError(str(error)) from None
    if model.eos_id() < 0 or model.unk_id() < 0:
        raise CheckpointError(f"{path} has no end token or no unknown token, which Marian needs")
    return _Side(model.eos_id(), model.unk_id(), model.get_piece_size())


def _read_list(path: Path) -> _Side:
    ids = _ids(path)
    eos, unk = _special_id(path, ids, *END), _special_id(path, ids, *UNKNOWN)
    return _Side(eos, unk, max(ids.values()) + 1, write_temporary_json(f"{path.stem}.json", ids))


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
        raise CheckpointError(f"{path} is not a vocabulary: it should map every token to its id")
    ids = {token: int(number) for token, number in content.items()}
    if not ids or len(set(ids.values())) < len(ids):
        raise CheckpointError(f"{path} is not a vocabulary: every token should have an id of its own")
    return ids


def _special_id(path: Path, ids: dict[str, int], token: str, old_name: str, usual_id: int) -> int:
    """Return the id of a special token; an old vocabulary has another name for it, or leaves its id free."""
    if ids.get(old_name) == usual_id or usual_id not in ids.values():
        return usual_id
    if token not in ids:
        raise CheckpointError(f"{path} has no {token!r}, which Marian needs")
    return ids[token]
