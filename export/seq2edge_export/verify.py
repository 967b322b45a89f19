"""The verdict on a bundle: its figures, the limits it breaks, and where it parts from the original.

Whether a bundle was made from an original at all, and has its settings still.

A verdict for people and for machines.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from seq2edge.bundle.atomic_files import sha256_of
from seq2edge.bundle.bundle import Bundle
from seq2edge.config.architecture import Architecture
from seq2edge.config.parity import LIMITS, Limits, Parity, shortcomings
from seq2edge.devices.registry import DeviceConfig
from seq2edge.devices.session import CPU_CONFIG
from seq2edge.errors import DataError
from seq2edge_export.locate import Divergence, first_difference
from seq2edge_export.source_model import SourceModel
from seq2edge_export.torch_engine import TorchEngine
from seq2edge_graphs.parity.measure import Findings, ParityComparison, ParityTask, measure
from seq2edge_graphs.parity.sentences import readable


def check_same_model(bundle: Bundle, original: SourceModel) -> None:
    """Refuse to compare models of different shapes: their numbers say nothing about each other."""
    ours = _shape(bundle.manifest.architecture, bundle.manifest.parameters)
    theirs = _shape(original.architecture, original.parameters)
    differing = [
        f"{name} {ours.get(name)} instead of {theirs.get(name)}"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]
    if differing:
        raise DataError(f"{bundle.folder} was not made from this checkpoint: it has {', '.join(differing)}")


def differing_settings(bundle: Bundle, original: SourceModel) -> list[str]:
    """Everything besides the graphs that decides what is said, where it is not the original's."""
    manifest = bundle.manifest
    pairs = {
        "special ids": (manifest.tokens, original.tokens),
        "tokenizer settings": (manifest.tokenizer, original.tokenization),
        "search defaults": (manifest.generation, original.generation),
        "languages": (manifest.languages, original.languages),
    }
    found = [f"the {what} are not the original's" for what, (ours, theirs) in pairs.items() if ours != theirs]
    hashes = {name: sha256_of(path) for name, path in original.tokenizer_files.items()}
    changed = [name for name in hashes if name in manifest.files and manifest.files[name].sha256 != hashes[name]]
    return found + [f"{name} is not the original's" for name in sorted(changed)]


def _shape(architecture: Architecture | None, parameters: int) -> dict[str, object]:
    return {"parameters": parameters, **(asdict(architecture) if architecture else {})}


@dataclass(frozen=True)
class Verdict:
    """What was measured and what is wrong with it."""

    parity: Parity
    limits: Limits
    failures: list[str]
    parting: Divergence | None

    @property
    def passed(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        if self.passed:
            return "the bundle says what the original says"
        clauses = [*self.failures, *([str(self.parting)] if self.parting else [])]
        return f"the bundle does not say what the original says: {'; '.join(clauses)}"


def verify(
    bundle: Bundle,
    original: SourceModel,
    *,
    texts: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    device_config: DeviceConfig = CPU_CONFIG,
    rest: Callable[[], None] = lambda: None,
) -> Verdict:
    """Compare a bundle with its original and judge it by the limits of its precision.

    ``device_config`` is where the bundle computes. ``rest`` is called whenever the original is not needed for a while.
    """
    check_same_model(bundle, original)
    tokenizer = original.tokenizer()
    sources, most_tokens = readable(texts, tokenizer, longest=bundle.manifest.max_positions)
    task = ParityTask(sources, original.generation, most_tokens)

    @contextmanager
    def awake() -> Iterator[TorchEngine]:
        yield TorchEngine(original.graphs, pad=original.tokens.pad)
        rest()

    comparison = ParityComparison(
        ours=bundle, theirs=awake, tokenizer=tokenizer, task=task, device_config=device_config
    )
    parity, findings = measure(comparison, references)
    limits = LIMITS[bundle.manifest.precision]
    failures = [*differing_settings(bundle, original), *shortcomings(parity, limits)]
    parting = _locate(bundle, original, task, findings, limits) if failures else None
    return Verdict(parity, limits, failures, parting)


def _locate(
    bundle: Bundle, original: SourceModel, task: ParityTask, findings: Findings, limits: Limits
) -> Divergence | None:
    sentence, step = findings.forced.worst
    prefix = [original.generation.decoder_start_token_id, *findings.targets[sentence][:step]]
    found = first_difference(bundle, original.graphs, task.sources[sentence], prefix, limit=limits.layer_difference)
    return Divergence(sentence, step, *found) if found else None


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
