"""Score given targets in one pass and show where the decoder looked; needs numpy and onnxruntime."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from seq2edge import names
from seq2edge.bundle import Bundle
from seq2edge.encoding import encode
from seq2edge.first_call import first_call
from seq2edge.onnx_engine import OnnxEngine
from seq2edge.search import Ids, Scores
from seq2edge.search.probability import chosen_log_probabilities
from seq2edge.sessions import open_session, run

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


@dataclass(frozen=True)
class Scored:
    """How likely the tokens of a target are after its source, and where the decoder looked for each."""

    log_probabilities: Scores  # (T,)
    attention: Scores  # (layers, heads, T, S): row t is from the step that predicted token t


class Scorer:
    """The encoder and the scorer graph of one bundle, ready to run."""

    def __init__(self, encoder: "InferenceSession", scorer: "InferenceSession", *, pad: int) -> None:
        self.encoder = encoder
        self.scorer = scorer
        self.pad = pad

    @property
    def heads(self) -> int:
        """How many heads of all layers look at the source."""
        _, layers, heads, *_ = next(one.shape for one in self.scorer.get_outputs() if one.name == names.ATTENTION)
        return int(layers * heads)

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], *, start: int) -> list[Scored]:
        """Score each target after its source; targets are without the start token, and with the end token.

        All pairs are one batch, whose logits (pairs, longest target, vocabulary) are in memory at once.
        """
        if not self._are_pairs(sources, targets):
            return []
        logits, attention = self._run([names.ALL_LOGITS, names.ATTENTION], sources, targets, start)
        return [
            Scored(
                _chosen(logits[row], target),
                attention[row, :, :, : len(target), : len(source)].copy(),  # a view would keep the whole batch alive
            )
            for row, (source, target) in enumerate(zip(sources, targets, strict=True))
        ]

    def log_probabilities(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], *, start: int
    ) -> list[Scores]:  # (T,) each
        """The same without the attention, which is then not computed."""
        if not self._are_pairs(sources, targets):
            return []
        [logits] = self._run([names.ALL_LOGITS], sources, targets, start)
        return [_chosen(logits[row], target) for row, target in enumerate(targets)]

    @staticmethod
    def _are_pairs(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> bool:
        if len(sources) != len(targets):
            raise ValueError(f"there are {len(sources)} sources, but {len(targets)} targets")
        return bool(sources)

    def _run(
        self, wanted: list[str], sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], start: int
    ) -> list[Scores]:
        """Of the logits (B, 1, T, V) and the cross-attention (B, L, H, T, S) of all positions, what is wanted."""
        inputs = shifted(targets, start=start, pad=self.pad)  # (B, T)
        read = encode(self.encoder, [list(source) for source in sources], pad=self.pad)
        return run(self.scorer, first_call(self.scorer, inputs, read), wanted)


def _chosen(logits: Scores, target: Sequence[int]) -> Scores:  # (1, T, V) -> (T,)
    return chosen_log_probabilities(logits[0, : len(target)], np.asarray(target, np.int64))


def open_scorer(bundle: Bundle, engine: OnnxEngine) -> Scorer | None:
    """The scorer of a bundle, with the encoder that the engine has loaded; none where the bundle has none."""
    if names.SCORER not in bundle.manifest.files:
        return None
    session = open_session(bundle.folder / names.SCORER, threads=engine.threads, place=engine.place)
    return Scorer(engine.encoder, session, pad=engine.pad)


def shifted(targets: Sequence[Sequence[int]], *, start: int, pad: int) -> Ids:  # (B, T)
    """What the decoder reads to predict each token: the start token and all tokens but the last."""
    longest = max(1, *(len(target) for target in targets))
    inputs = np.full((len(targets), longest), pad, np.int64)
    inputs[:, 0] = start
    for row, target in enumerate(targets):
        inputs[row, 1 : len(target)] = target[:-1]
    return inputs
