"""The verdict on a bundle: its figures, the limits it breaks, and where it parts from the original."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from seq2edge.bundle import Bundle
from seq2edge.devices import Place
from seq2edge.parity import LIMITS, Limits, Parity, shortcomings
from seq2edge.sessions import HERE
from seq2edge_export.original import Original
from seq2edge_export.torch_engine import TorchEngine
from seq2edge_export.verify.kinship import check_kinship, differing_settings
from seq2edge_export.verify.locate import Parting, first_difference
from seq2edge_graphs.compare.hear import Task
from seq2edge_graphs.compare.measure import Comparison, Findings, measure
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
    place: Place = HERE,
    rest: Callable[[], None] = lambda: None,
) -> Verdict:
    """Compare a bundle with its original and judge it by the limits of its precision.

    ``place`` is where the bundle computes. ``rest`` is called whenever the original is not needed for a while.
    """
    check_kinship(bundle, original)
    tokenizer = original.tokenizer()
    sources, most_tokens = readable(texts, tokenizer, longest=bundle.manifest.max_positions)
    task = Task(sources, original.generation, most_tokens)

    @contextmanager
    def awake() -> Iterator[TorchEngine]:
        yield TorchEngine(original.graphs, pad=original.tokens.pad)
        rest()

    comparison = Comparison(ours=bundle, theirs=awake, tokenizer=tokenizer, task=task, place=place)
    parity, findings = measure(comparison, references)
    limits = LIMITS[bundle.manifest.precision]
    failures = [*differing_settings(bundle, original), *shortcomings(parity, limits)]
    parting = _locate(bundle, original, task, findings, limits) if failures else None
    return Verdict(parity, limits, failures, parting)


def _locate(bundle: Bundle, original: Original, task: Task, findings: Findings, limits: Limits) -> Parting | None:
    sentence, step = findings.forced.worst
    prefix = [original.generation.decoder_start_token_id, *findings.targets[sentence][:step]]
    found = first_difference(bundle, original.graphs, task.sources[sentence], prefix, limit=limits.layer_difference)
    return Parting(sentence, step, *found) if found else None
