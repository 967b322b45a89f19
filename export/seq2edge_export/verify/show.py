"""A verdict for people and for machines; needs nothing."""

import json
import math
from dataclasses import asdict
from typing import Any

from seq2edge_export.verify.verify import Verdict


def to_json(verdict: Verdict) -> str:
    content = {
        "passed": verdict.passed,
        "failures": verdict.failures,
        "parting": asdict(verdict.parting) if verdict.parting else None,
        "parity": asdict(verdict.parity),
        "limits": asdict(verdict.limits),
    }
    return json.dumps(_finite(content), indent=2)


def _finite(value: Any) -> Any:
    """JSON has no infinity: null says that there was no number."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_table(verdict: Verdict) -> str:
    """One line a figure, with its limit where it has one."""
    parity, limits = verdict.parity, verdict.limits
    rows = [
        ("sentences, steps compared", f"{parity.sentences}, {parity.steps}", ""),
        ("batch sizes, device", f"{', '.join(map(str, parity.batch_sizes))}, {parity.device}", ""),
        ("cross keys and values, largest difference", f"{parity.cross_difference:.1e}", ""),
        ("logits, largest difference", f"{parity.logit_difference:.1e}", _most(limits.logit_difference)),
        ("likeliest token equal", f"{parity.top1_agreement:.2%}", ""),
        ("likeliest token equal where clear", f"{parity.clear_agreement:.2%}", _least(limits.clear_agreement)),
        ("divergence, mean (nats)", f"{parity.mean_kl:.1e}", _most(limits.mean_kl)),
        ("greedy output equal", f"{parity.greedy_equal:.2%}", _least(limits.tokens_equal)),
        ("beam output equal", f"{parity.beam_equal:.2%}", _least(limits.tokens_equal)),
        ("sequence scores, largest difference", f"{parity.score_difference:.1e}", ""),
    ]
    if parity.quality is not None:
        quality = parity.quality
        bleu, chrf = quality.bleu_bundle - quality.bleu_original, quality.chrf_bundle - quality.chrf_original
        rows.append(("BLEU", f"{quality.bleu_bundle:.2f} ({bleu:+.2f})", f"at least -{limits.bleu_loss:.2f}"))
        rows.append(("chrF", f"{quality.chrf_bundle:.2f} ({chrf:+.2f})", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines = [f"{name:<{widths[0]}}  {value:>{widths[1]}}  {limit}".rstrip() for name, value, limit in rows]
    return "\n".join([*lines, "passed" if verdict.passed else "failed"])


def _most(limit: float | None) -> str:
    return "" if limit is None else f"at most {limit:.0e}"


def _least(limit: float | None) -> str:
    return "" if limit is None else f"at least {limit:.1%}"
