"""BLEU of outputs beside references; needs sacrebleu."""

from collections.abc import Sequence

from seq2edge.errors import MissingExtraError


def check_sacrebleu() -> None:
    """Say before anything is measured that something is missing."""
    try:
        import sacrebleu  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtraError("sacrebleu", "bench") from None


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    from sacrebleu.metrics.bleu import BLEU

    return round(float(BLEU().corpus_score(list(texts), [list(references)]).score), 2)
