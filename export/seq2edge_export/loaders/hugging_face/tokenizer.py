"""A ``tokenizer.json``, or the files of byte-level BPE that one is made of.

Tokenizer files that a bundle needs and the folder has in another form.

SentencePiece models whose pieces Hugging Face numbers in its own way.
"""

import atexit
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from seq2edge.config.tokenizer import Tokenization
from seq2edge.errors import CheckpointError
from seq2edge.text.vocabularies import load_sentencepiece
from seq2edge.text.vocabularies.tokenizer_json import MOST_TOKENS, check_tokenizer_json
from seq2edge_export.loaders.hugging_face.config import TOKENIZER, TOKENIZER_CONFIG, Settings
from seq2edge_export.loaders.state_dict import read_object


def made_file(name: str, content: Any) -> Path:
    """A JSON file that lasts as long as the program."""
    folder = Path(tempfile.mkdtemp(prefix="seq2edge-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / name
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path


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


FAIRSEQ = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}  # before the pieces; SentencePiece has <unk>, <s>, </s>
FAIRSEQ_OFFSET = 1


def numbered(model: Path, marks: Mapping[str, int], *, first: int, offset: int) -> dict[str, int]:
    """The marks, and behind them the pieces from ``first`` on, each with its number in the model plus an offset."""
    pieces = load_sentencepiece(model)
    ids = {pieces.piece(number): number + offset for number in range(first, pieces.get_piece_size())}
    return ids | dict(marks)


def pieces_rules(model: Path, ids: Mapping[str, int], silent: tuple[int, ...]) -> Tokenization:
    """SentencePiece cuts, the vocabulary numbers; both sides alike."""
    vocabulary = str(made_file("vocab.json", dict(ids)))
    return Tokenization(
        source=vocabulary,
        target=vocabulary,
        kind="pieces",
        source_codes=str(model),
        target_codes=str(model),
        silent=silent,
    )
