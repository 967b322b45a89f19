"""The verdict on a bundle: its figures, the limits it breaks, and where it parts from the original."""

from collections.abc import Sequence
from dataclasses import dataclass

from seq2edge.bundle import Bundle
from seq2edge.errors import DataError
from seq2edge.onnx_engine import OnnxEngine
from seq2edge.parity import LIMITS, Limits, Parity, shortcomings
from seq2edge_export.original import Original
from seq2edge_export.torch_engine import TorchEngine
from seq2edge_export.verify.kinship import check_kinship, differing_settings
from seq2edge_export.verify.locate import Parting, first_difference
from seq2edge_export.verify.measure import Comparison, Forced, measure
from seq2edge_export.verify.sentences import SENTENCES

BUILT_IN_TOKENS = 48  # of an output of the built-in sentences, which are in many languages


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
    comparison = _side_by_side(bundle, original, texts)
    parity, forced, targets = measure(comparison, references)
    limits = LIMITS[bundle.manifest.precision]
    failures = [*differing_settings(bundle, original), *shortcomings(parity, limits)]
    parting = _locate(comparison, forced, targets, limits) if failures else None
    return Verdict(parity, limits, failures, parting)


def _side_by_side(bundle: Bundle, original: Original, texts: Sequence[str] | None) -> Comparison:
    tokenizer, longest = original.tokenizer(), bundle.manifest.max_positions
    if texts is None:  # a model with few positions is compared on the built-in sentences that it can read
        sources = [source for source in tokenizer.encode(SENTENCES) if len(source) <= longest]
    else:
        sources = tokenizer.encode(texts)
    for number, source in enumerate(sources, start=1):
        if len(source) > longest:
            raise DataError(f"sentence {number} has {len(source)} tokens, but the model reads at most {longest}")
    if not sources:
        raise DataError("there is no sentence to compare on; give some with --input")
    ours = OnnxEngine(bundle, threads=1)  # one thread: the same figures on every run
    theirs = TorchEngine(original.graphs, pad=ours.pad)
    return Comparison(bundle, original, ours, theirs, sources, BUILT_IN_TOKENS if texts is None else longest)


def _locate(comparison: Comparison, forced: Forced, targets: list[list[int]], limits: Limits) -> Parting | None:
    sentence, step = forced.worst
    prefix = [comparison.options(1).decoder_start_token_id, *targets[sentence][:step]]
    found = first_difference(
        comparison.bundle,
        comparison.theirs.graphs,
        comparison.sources[sentence],
        prefix,
        limit=limits.layer_difference,
    )
    return Parting(sentence, step, *found) if found else None
