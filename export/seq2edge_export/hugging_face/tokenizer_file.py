"""A ``tokenizer.json``, or the files of byte-level BPE that one is made of; needs tokenizers."""

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from seq2edge.errors import CheckpointError
from seq2edge.tokenization import Tokenization
from seq2edge.vocabularies.tokenizer_json_file import MOST_TOKENS, check_tokenizer_json
from seq2edge_export.hugging_face.folder import TOKENIZER, TOKENIZER_CONFIG, Settings
from seq2edge_export.hugging_face.made_files import made_file
from seq2edge_export.json_object import read_object

VOCABULARY, MERGES = "vocab.json", "merges.txt"
MARKS = ("<s>", "<pad>", "</s>", "<unk>")
MASK = "<mask>"


def tokenizers_rules(file: Path, *, source_bos: bool = False, source_prefix: str = "") -> Tokenization:
    """The file for both sides, with marks around a source text."""
    path = str(file)
    return Tokenization(source=path, target=path, kind="tokenizers", source_bos=source_bos, source_prefix=source_prefix)


def token_ids(file: Path) -> dict[str, int]:
    """Every token of a ``tokenizer.json``, added ones too."""
    try:
        return dict(Tokenizer.from_str(check_tokenizer_json(file)).get_vocab(with_added_tokens=True))
    except Exception as error:  # the library has no type of its own for what it raises
        raise CheckpointError(f"{file} is not a tokenizer.json that can be read ({error})") from None


def byte_level_file(folder: Path) -> Path:
    """The ``tokenizer.json`` of a folder, or one made of ``vocab.json`` and ``merges.txt`` as transformers does."""
    if (folder / TOKENIZER).is_file():
        return folder / TOKENIZER
    missing = [name for name in (VOCABULARY, MERGES) if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(f"{folder} has neither {TOKENIZER} nor {' and '.join(missing)}")
    settings = read_object(folder / TOKENIZER_CONFIG, wanted=False)
    return made_file(TOKENIZER, _byte_level(folder, settings))


def _byte_level(folder: Path, settings: Settings) -> Any:
    vocabulary = read_object(folder / VOCABULARY)
    if not all(type(number) is int and 0 <= number < MOST_TOKENS for number in vocabulary.values()):
        raise CheckpointError(f"{folder / VOCABULARY} has ids that are no whole numbers from 0 to {MOST_TOKENS - 1:,}")
    try:
        lines = (folder / MERGES).read_text(encoding="utf-8").split("\n")
        merges = [(first, second) for first, second in (line.split(" ") for line in lines if _is_merge(line))]
        tokenizer = Tokenizer(BPE(vocabulary, merges))
    except Exception as error:  # as above
        raise CheckpointError(f"{folder} holds no byte-level BPE in {VOCABULARY} and {MERGES} ({error})") from None
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=bool(settings.get("add_prefix_space")))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([token for token in MARKS if token in vocabulary])
    if MASK in vocabulary:
        tokenizer.add_special_tokens([AddedToken(MASK, lstrip=True)])
    return json.loads(tokenizer.to_str())


def _is_merge(line: str) -> bool:
    return bool(line) and not line.startswith("#version")
