"""Score given targets in one pass and show where the decoder looked; needs numpy and onnxruntime."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from seq2edge import names
from seq2edge.bundle import Bundle
from seq2edge.onnx_engine import OnnxEngine, empty_past, encode
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

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], *, start: int) -> list[Scored]:
        """Score each target after its source; targets are without the start token, and with the end token.

        All pairs are one batch, whose logits (pairs, longest target, vocabulary) are in memory at once.
        """
        if len(sources) != len(targets):
            raise ValueError(f"there are {len(sources)} sources, but {len(targets)} targets")
        if not sources:
            return []
        all_logits, attention = self._run(sources, shifted(targets, start=start, pad=self.pad))
        return [
            Scored(
                chosen_log_probabilities(all_logits[row, 0, : len(target)], np.asarray(target, np.int64)),
                attention[row, :, :, : len(target), : len(source)].copy(),  # a view would keep the whole batch alive
            )
            for row, (source, target) in enumerate(zip(sources, targets, strict=True))
        ]

    def _run(self, sources: Sequence[Sequence[int]], inputs: Ids) -> tuple[Scores, Scores]:  # (B, T)
        """The logits (B, 1, T, V) and the cross-attention (B, L, H, T, S) of all positions."""
        rows = np.arange(len(sources))[:, None]
        past = empty_past(self.scorer, rows=len(sources))
        read = encode(self.encoder, [list(source) for source in sources], pad=self.pad)
        all_logits, attention = run(self.scorer, {names.TARGET: inputs[:, None], names.ROWS: rows, **read, **past})
        return all_logits, attention


def open_scorer(bundle: Bundle, engine: OnnxEngine) -> Scorer | None:
    """The scorer of a bundle, with the encoder that the engine has loaded; none where the bundle has none."""
    if names.SCORER not in bundle.manifest.files:
        return None
    session = open_session(bundle.folder / names.SCORER, threads=engine.threads, device=engine.device)
    return Scorer(engine.encoder, session, pad=engine.pad)


def shifted(targets: Sequence[Sequence[int]], *, start: int, pad: int) -> Ids:  # (B, T)
    """What the decoder reads to predict each token: the start token and all tokens but the last."""
    longest = max(1, *(len(target) for target in targets))
    inputs = np.full((len(targets), longest), pad, np.int64)
    inputs[:, 0] = start
    for row, target in enumerate(targets):
        inputs[row, 1 : len(target)] = target[:-1]
    return inputs
