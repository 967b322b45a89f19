"""How good translations are beside references; needs sacrebleu."""

from collections.abc import Sequence

from seq2edge.parity import Quality


def quality(original: Sequence[str], bundle: Sequence[str], references: Sequence[str]) -> Quality:
    """Corpus scores of what the original says and of what the bundle says."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scores = [
        round(metric.corpus_score(list(texts), [list(references)]).score, 2)
        for metric in (BLEU(), CHRF())
        for texts in (original, bundle)
    ]
    return Quality(bleu_original=scores[0], bleu_bundle=scores[1], chrf_original=scores[2], chrf_bundle=scores[3])
