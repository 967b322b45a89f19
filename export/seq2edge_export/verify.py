"""Compare a bundle with its source model and judge the differences."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from seq2edge.bundle.atomic_files import sha256_of
from seq2edge.bundle.bundle import Bundle
from seq2edge.config.architecture import Architecture
from seq2edge.config.parity import LIMITS, Limits, Parity, failed_limits
from seq2edge.devices.registry import DeviceConfig
from seq2edge.devices.session import CPU_CONFIG
from seq2edge.errors import DataError
from seq2edge_export.locate import Divergence, first_difference
from seq2edge_export.source_model import SourceModel, TorchEngine
from seq2edge_graphs.parity.measure import Findings, ParityComparison, measure
from seq2edge_graphs.parity.record import ParityTask
from seq2edge_graphs.parity.sentences import encode_sentences


@dataclass(frozen=True)
class Verdict:
    """The measurements of a bundle and the limits that they exceed."""

    parity: Parity
    limits: Limits
    failures: list[str]
    divergence: Divergence | None

    @property
    def passed(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        if self.passed:
            return "the bundle matches its source model"
        clauses = [*self.failures, *([str(self.divergence)] if self.divergence else [])]
        return f"the bundle does not match its source model: {'; '.join(clauses)}"


def verify(
    bundle: Bundle,
    source_model: SourceModel,
    *,
    texts: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    device_config: DeviceConfig = CPU_CONFIG,
    release: Callable[[], None] = lambda: None,
) -> Verdict:
    """Compare a bundle with its source model and apply the limits of its precision.

    The bundle runs on the device of ``device_config``. ``release`` is called whenever the source model is not needed
    for a while.
    """
    check_same_model(bundle, source_model)
    tokenizer = source_model.tokenizer()
    sources, max_new_tokens = encode_sentences(texts, tokenizer, max_tokens=bundle.manifest.max_positions)
    task = ParityTask(sources, source_model.generation, max_new_tokens)

    @contextmanager
    def source_engine() -> Iterator[TorchEngine]:
        yield TorchEngine(source_model.graphs, pad=source_model.tokens.pad)
        release()

    comparison = ParityComparison(
        bundle=bundle, open_source=source_engine, tokenizer=tokenizer, task=task, device_config=device_config
    )
    parity, findings = measure(comparison, references)
    limits = LIMITS[bundle.manifest.precision]
    failures = [*differing_settings(bundle, source_model), *failed_limits(parity, limits)]
    divergence = _locate(bundle, source_model, task, findings, limits) if failures else None
    return Verdict(parity, limits, failures, divergence)


def check_same_model(bundle: Bundle, source_model: SourceModel) -> None:
    """Refuse to compare models of different architectures, as the measurements would mean nothing."""
    ours = _sizes(bundle.manifest.architecture, bundle.manifest.parameters)
    theirs = _sizes(source_model.architecture, source_model.parameters)
    differences = [
        f"{name} {ours.get(name)} instead of {theirs.get(name)}"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]
    if differences:
        raise DataError(f"{bundle.folder} was not made from this checkpoint: it has {', '.join(differences)}")


def differing_settings(bundle: Bundle, source_model: SourceModel) -> list[str]:
    """Name the settings and files besides the graphs that change the output and differ from the source model's."""
    manifest = bundle.manifest
    pairs = {
        "special ids": (manifest.tokens, source_model.tokens),
        "tokenizer settings": (manifest.tokenizer, source_model.tokenization),
        "search defaults": (manifest.generation, source_model.generation),
        "languages": (manifest.languages, source_model.languages),
    }
    settings = [name for name, (ours, theirs) in pairs.items() if ours != theirs]
    hashes = {name: sha256_of(path) for name, path in source_model.tokenizer_files.items()}
    files = [name for name in hashes if name in manifest.files and manifest.files[name].sha256 != hashes[name]]
    return [f"the {name} differ from the source model's" for name in settings] + [
        f"{name} differs from the source model's" for name in sorted(files)
    ]


def _sizes(architecture: Architecture | None, parameters: int) -> dict[str, object]:
    return {"parameters": parameters, **(asdict(architecture) if architecture else {})}


def _locate(
    bundle: Bundle, source_model: SourceModel, task: ParityTask, findings: Findings, limits: Limits
) -> Divergence | None:
    sentence, step = findings.forced.worst
    source = task.sources[sentence]
    prefix = [source_model.generation.decoder_start_token_id, *findings.targets[sentence][:step]]
    layer = first_difference(bundle, source_model.graphs, source, prefix, limit=limits.layer_difference)
    return Divergence(sentence, step, *layer) if layer else None


def to_json(verdict: Verdict) -> str:
    content = {
        "passed": verdict.passed,
        "failures": verdict.failures,
        "parting": asdict(verdict.divergence) if verdict.divergence else None,
        "parity": asdict(verdict.parity),
        "limits": asdict(verdict.limits),
    }
    return json.dumps(_finite(content), indent=2)


def _finite(value: Any) -> Any:
    """Replace infinity and NaN, which JSON does not have, with null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_table(verdict: Verdict) -> str:
    """Format one line per measurement, with its limit."""
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
