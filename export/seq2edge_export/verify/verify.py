"""The verdict on a bundle: its figures, the limits it breaks, and where it parts from the original."""

from collections.abc import Sequence
from dataclasses import dataclass

from seq2edge.bundle import Bundle
from seq2edge.onnx_engine import OnnxEngine
from seq2edge.parity import LIMITS, Limits, Parity, shortcomings
from seq2edge_export.original import Original
from seq2edge_export.torch_engine import TorchEngine
from seq2edge_export.verify.kinship import check_kinship, differing_settings
from seq2edge_export.verify.locate import Parting, first_difference
from seq2edge_graphs.compare.measure import Comparison, Forced, measure
from seq2edge_graphs.compare.sentences import readable


@dataclass(frozen=True)
class Verdict:
    """What was measured and what is wrong with it."""

    parity: Parity
    limits: Limits
    failures: list[str]
    parting: Parting | None

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
    original: Original,
    *,
    texts: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
) -> Verdict:
    """Compare a bundle with its original and judge it by the limits of its precision."""
    check_kinship(bundle, original)
    ours = OnnxEngine(bundle, threads=1)  # one thread: the same figures on every run
    sources, most_tokens = readable(texts, original.tokenizer(), longest=bundle.manifest.max_positions)
    comparison = Comparison(
        ours=ours,
        theirs=TorchEngine(original.graphs, pad=ours.pad),
        tokenizer=original.tokenizer(),
        generation=original.generation,
        sources=sources,
        most_tokens=most_tokens,
    )
    parity, forced, targets = measure(comparison, references)
    limits = LIMITS[bundle.manifest.precision]
    failures = [*differing_settings(bundle, original), *shortcomings(parity, limits)]
    parting = _locate(bundle, original, comparison, forced, targets, limits) if failures else None
    return Verdict(parity, limits, failures, parting)


def _locate(
    bundle: Bundle,
    original: Original,
    comparison: Comparison,
    forced: Forced,
    targets: list[list[int]],
    limits: Limits,
) -> Parting | None:
    sentence, step = forced.worst
    prefix = [original.generation.decoder_start_token_id, *targets[sentence][:step]]
    source = comparison.sources[sentence]
    found = first_difference(bundle, original.graphs, source, prefix, limit=limits.layer_difference)
    return Parting(sentence, step, *found) if found else None
