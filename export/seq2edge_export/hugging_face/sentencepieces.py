"""SentencePiece models whose pieces Hugging Face numbers in its own way; needs sentencepiece."""

from collections.abc import Mapping
from pathlib import Path

from seq2edge.tokenization import Tokenization
from seq2edge.vocabularies import load_sentencepiece
from seq2edge_export.hugging_face.made_files import made_file

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
