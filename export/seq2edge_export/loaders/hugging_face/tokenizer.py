"""Read ``tokenizer.json``, byte-level BPE files and SentencePiece models of Hugging Face folders."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from seq2edge.config.languages import Languages
from seq2edge.config.tokenizer import Tokenization
from seq2edge.errors import CheckpointError
from seq2edge.text.vocabularies import load_sentencepiece
from seq2edge.text.vocabularies.tokenizer_json import MAX_TOKENS, check_tokenizer_json
from seq2edge_export.loaders.hugging_face.config import TOKENIZER, TOKENIZER_CONFIG, Settings
from seq2edge_export.loaders.state_dict import read_object
from seq2edge_export.loaders.tokenizer_files import write_temporary_json

VOCABULARY, MERGES = "vocab.json", "merges.txt"
BOS, PAD, EOS, UNK, MASK = "<s>", "<pad>", "</s>", "<unk>", "<mask>"
FAIRSEQ = {BOS: 0, PAD: 1, EOS: 2, UNK: 3}  # before the pieces, where SentencePiece has <unk>, <s>, </s>
FAIRSEQ_OFFSET = 1


@dataclass(frozen=True, kw_only=True)
class HuggingFaceText:
    """The tokenization of a folder with the paths of its files, its special ids and its languages."""

    tokenization: Tokenization
    unk: int
    bos: int | None = None  # None: the decoder start token
    languages: Languages


def tokenizers_tokenization(file: Path, *, source_bos: bool = False, source_prefix: str = "") -> Tokenization:
    """Return a tokenization with one ``tokenizer.json`` for both sides."""
    path = str(file)
    return Tokenization(source=path, target=path, kind="tokenizers", source_bos=source_bos, source_prefix=source_prefix)


def token_ids(file: Path) -> dict[str, int]:
    """Return the ids of all tokens of a ``tokenizer.json``, including added ones."""
    try:
        return dict(Tokenizer.from_str(check_tokenizer_json(file)).get_vocab(with_added_tokens=True))
    except Exception as error:  # the library raises plain exceptions
        raise CheckpointError(f"{file} is not a valid tokenizer.json ({error})") from None


def byte_level_file(folder: Path) -> Path:
    """Return the ``tokenizer.json`` of a folder, or build one from ``vocab.json`` and ``merges.txt``."""
    if (folder / TOKENIZER).is_file():
        return folder / TOKENIZER
    missing = [name for name in (VOCABULARY, MERGES) if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(f"{folder} has neither {TOKENIZER} nor {' and '.join(missing)}")
    settings = read_object(folder / TOKENIZER_CONFIG, required=False)
    return write_temporary_json(TOKENIZER, _byte_level(folder, settings))


def _byte_level(folder: Path, settings: Settings) -> Any:
    vocabulary = read_object(folder / VOCABULARY)
    if not all(type(number) is int and 0 <= number < MAX_TOKENS for number in vocabulary.values()):
        raise CheckpointError(f"{folder / VOCABULARY} has ids that are not integers from 0 to {MAX_TOKENS - 1:,}")
    try:
        lines = (folder / MERGES).read_text(encoding="utf-8").split("\n")
        merges = [(first, second) for first, second in (line.split(" ") for line in lines if _is_merge(line))]
        tokenizer = Tokenizer(BPE(vocabulary, merges))
    except Exception as error:  # the library raises plain exceptions
        raise CheckpointError(f"{VOCABULARY} and {MERGES} in {folder} are not valid byte-level BPE ({error})") from None
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=bool(settings.get("add_prefix_space")))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([token for token in (BOS, PAD, EOS, UNK) if token in vocabulary])
    if MASK in vocabulary:
        tokenizer.add_special_tokens([AddedToken(MASK, lstrip=True)])
    return json.loads(tokenizer.to_str())


def _is_merge(line: str) -> bool:
    return bool(line) and not line.startswith("#version")


def sentencepiece_ids(model: Path, special: Mapping[str, int], *, first: int, offset: int) -> dict[str, int]:
    """Return the special ids and those of the pieces from ``first`` on, which are their numbers plus an offset."""
    pieces = load_sentencepiece(model)
    ids = {pieces.piece(number): number + offset for number in range(first, pieces.get_piece_size())}
    return ids | dict(special)


def pieces_tokenization(model: Path, ids: Mapping[str, int], silent: tuple[int, ...]) -> Tokenization:
    """Return a tokenization of SentencePiece with its own ids, the same for both sides."""
    vocabulary = str(write_temporary_json("vocab.json", dict(ids)))
    return Tokenization(
        source=vocabulary,
        target=vocabulary,
        kind="pieces",
        source_codes=str(model),
        target_codes=str(model),
        silent=silent,
    )


def check_special_tokens(ids: Mapping[str, int], eos: int) -> None:
    """Check that the tokenizer has an unknown token, and the end token of ``config.json``."""
    if UNK not in ids or ids.get(EOS) != eos:
        raise CheckpointError(f"the tokenizer has the id {ids.get(EOS)} for {EOS!r}, expected {eos}, or has no {UNK!r}")
