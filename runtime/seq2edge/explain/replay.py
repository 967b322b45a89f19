"""Decode a given translation once more, token by token, and keep what happens inside.

The graphs are those of the bundle with more outputs (``graph_values.py``), on one row.

Shapes at line ends: L layers, H heads, S source tokens, P source tokens with padding, T target tokens, d the width of a
head, D the width of the model, V the vocabulary size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle
from seq2edge.devices.session import open_session, run
from seq2edge.engine.decoder_inputs import first_decoder_inputs, has_inplace_cache
from seq2edge.engine.encoder import Padding
from seq2edge.errors import BundleError
from seq2edge.explain.graph_values import AttentionSite, GraphValues, expose, read_values
from seq2edge.search import Scores

Values = Mapping[str, NDArray[Any]]
AttentionKind = Literal["encoder", "decoder", "cross"]
CacheKind = Literal["keys and values", "cells", "states"]
ScoresWeights = tuple[Scores, Scores]  # (H, T, P) each
KEYS_VALUES = tuple(name.removesuffix("0") for name in tensor_names.past(1))  # how the names of a KV cache begin
FIRST_STATES: dict[str, CacheKind] = {
    tensor_names.past(1)[0]: "keys and values",
    tensor_names.past_cells(1)[0]: "cells",
}
NO_VALUES = GraphValues(attention=(), positions="", outputs=())  # of a user module
MASKED = np.finfo(np.float32).min / 2  # lower scores are those that a mask has replaced


@dataclass(frozen=True, kw_only=True)
class AttentionMaps:
    """The attention of every head of some layers; each row is a query.

    A key that a query must not see has a score of minus infinity and no weight.
    """

    kind: AttentionKind
    scores: Scores  # (L, H, S or T, P or T): what the softmax is applied to
    weights: Scores  # the same shape, rows sum to 1
    recomputed: bool  # from queries and keys, because a fused operator does not return them


@dataclass(frozen=True, kw_only=True)
class CacheGrowth:
    """What the decoder keeps from step to step, for one row."""

    kind: CacheKind
    bytes: tuple[int, ...]  # (T,): after each step
    cross_bytes: int  # keys and values of the source, computed once
    norms: dict[str, Scores]  # by tensor: (T,), of what each step has added


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What happened inside while a translation was decoded."""

    padded_length: int  # P
    logits: Scores  # (T, V)
    positions: Scores | None  # (S, D): position embeddings of the source
    attention: tuple[AttentionMaps, ...]
    cache: CacheGrowth
    missing: tuple[str, ...]  # sentences about what this model does not have


class ObservedGraph:
    """A graph of a bundle whose inner values can be read."""

    def __init__(self, bundle: Bundle, name: str, *, threads: int) -> None:
        path = bundle.folder / name
        raw = bundle.graph(name) or path.read_bytes()
        self.values = NO_VALUES if bundle.manifest.architecture is None else read_values(raw)
        self.session = open_session(path, threads=threads, content=expose(raw, self.values.hidden))
        self.outputs = [output.name for output in self.session.get_outputs()]

    def run(self, feed: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return dict(zip(self.outputs, run(self.session, feed), strict=True))


class Replayer:
    """The observed encoder and decoder of a bundle; graphs on other devices than the CPU are not observed."""

    def __init__(self, bundle: Bundle, *, threads: int) -> None:
        self.architecture = bundle.manifest.architecture
        self.padding = Padding(bundle.manifest.tokens.pad, bundle.manifest.max_positions)
        self.encoder = ObservedGraph(bundle, tensor_names.ENCODER, threads=threads)
        self.decoder = ObservedGraph(bundle, tensor_names.DECODER, threads=threads)
        self._check_layers()

    def replay(self, source: list[int], inputs: Sequence[int]) -> Replay:
        """Encode a source, and feed the decoder the start token and all tokens of the translation but the last."""
        ids, mask = self.padding.pad([source])
        encoded = self.encoder.run({tensor_names.SOURCE: ids, tensor_names.SOURCE_MASK: mask})
        cross = {name: states for name, states in encoded.items() if tensor_names.is_cross(name)}
        steps = self._decode({tensor_names.SOURCE_MASK: mask, **cross}, inputs)
        positions = encoded.get(self.encoder.values.positions)
        return Replay(
            padded_length=ids.shape[1],
            logits=np.stack([step.logits for step in steps]),
            positions=None if positions is None else _positions(positions, len(source)),
            attention=self._attention(self._maps(self.encoder, encoded), steps, len(source)),
            cache=CacheGrowth(
                kind=_cache_kind(self.decoder.outputs),
                bytes=tuple(step.bytes for step in steps),
                cross_bytes=sum(states.nbytes for states in cross.values()),
                norms={name: np.array([step.norms[name] for step in steps], np.float32) for name in steps[0].norms},
            ),
            missing=tuple(self._missing(positions is not None)),
        )

    def _decode(self, encoded: dict[str, NDArray[Any]], inputs: Sequence[int]) -> list["_Step"]:
        session, steps, past = self.decoder.session, list[_Step](), dict[str, NDArray[Any]]()
        for position, token in enumerate(inputs):
            feed = first_decoder_inputs(session, np.array([[token]]), encoded) | past
            if has_inplace_cache(session):
                feed[tensor_names.POSITIONS] = np.array([position])
                feed[tensor_names.LAST] = np.array([position], np.int32)
                feed[tensor_names.TOTAL] = np.array([position + 1], np.int32)
            values = self.decoder.run(feed)
            past = {name: values[tensor_names.present_of(name)] for name in feed if tensor_names.is_past(name)}
            steps.append(_step(values, past, self._maps(self.decoder, values)))
        return steps

    def _maps(self, graph: ObservedGraph, values: Values) -> list[ScoresWeights]:
        if self.architecture is None:
            return []
        return [_scores_weights(site, values, self.architecture.heads) for site in graph.values.attention]

    def _attention(self, encoder: list[ScoresWeights], steps: list["_Step"], length: int) -> tuple[AttentionMaps, ...]:
        """Return the maps of all layers; queries of padding are left out."""
        if self.architecture is None:
            return ()
        layers = [_stack(site) for site in zip(*(step.attention for step in steps), strict=True)]
        if self.architecture.decoder_cell == "ssru":
            kinds: dict[AttentionKind, list[ScoresWeights]] = {"cross": layers}
        else:
            kinds = {"decoder": layers[0::2], "cross": layers[1::2]}
        return (
            _joined(
                "encoder", [(scores[:, :length], weights[:, :length]) for scores, weights in encoder], self.encoder
            ),
            *(_joined(kind, of_kind, self.decoder) for kind, of_kind in kinds.items()),
        )

    def _check_layers(self) -> None:
        shape = self.architecture
        if shape is None:
            return
        per_layer = 1 if shape.decoder_cell == "ssru" else 2
        found = len(self.encoder.values.attention), len(self.decoder.values.attention)
        expected = shape.encoder_layers, per_layer * shape.decoder_layers
        if found != expected:
            raise BundleError(
                f"the graphs have {found[0]} and {found[1]} attention layers instead of {expected[0]} and "
                f"{expected[1]}, so they cannot be explained: export the model again"
            )

    def _missing(self, positions: bool) -> list[str]:
        shape = self.architecture
        if shape is None:
            return ["This bundle is a user module: which of its tensors are attention or positions is not known."]
        sentences = []
        if shape.decoder_cell == "ssru":
            sentences.append("The decoder has recurrent cells (SSRU) instead of self-attention.")
        if shape.positions == "relative":
            sentences.append("Positions are a bias of each head for the distance of two tokens, part of the scores.")
        elif not positions:
            sentences.append("The model has no position embeddings.")
        return sentences


@dataclass(frozen=True, kw_only=True)
class _Step:
    """What is kept of one decoder call; the cache itself would take memory that grows with the square of the length."""

    logits: Scores  # (V,)
    attention: list[ScoresWeights]  # (H, 1, 1 to T or P) each
    bytes: int  # of the cache
    norms: dict[str, float]


def _step(values: Values, past: Values, attention: list[ScoresWeights]) -> _Step:
    numbers = {name: states for name, states in past.items() if states.dtype != np.int64}  # a count has no norm
    return _Step(
        logits=values[tensor_names.LOGITS].reshape(-1).astype(np.float32),
        attention=attention,
        bytes=sum(states.nbytes for states in past.values()),
        norms={name: _added(states, grows=name.startswith(KEYS_VALUES)) for name, states in numbers.items()},
    )


def _scores_weights(site: AttentionSite, values: Values, heads: int) -> ScoresWeights:
    """Return the scores and weights of all heads (H, T, P) of the only row."""
    if site.kind == "plain":
        scores, weights = (values[name][0].astype(np.float32) for name in (site.scores, site.weights))
        return np.where(scores < MASKED, -np.inf, scores), weights
    keys = values[site.keys][0].astype(np.float32)  # (H, P, d), or (P, H * d)
    if keys.ndim == 2:
        keys = keys.reshape(len(keys), heads, -1).transpose(1, 0, 2)
    width = keys.shape[2]
    queries = values[site.queries][0, :, : heads * width].astype(np.float32)  # (T, H * d); keys and values may follow
    scores = queries.reshape(-1, heads, width).transpose(1, 0, 2) @ keys.transpose(0, 2, 1) * np.float32(site.scale)
    if site.bias:
        bias = values[site.bias][0].astype(np.float32)  # (H or 1, T, P)
        scores = np.where(bias < MASKED, -np.inf, scores + bias)
    exponentials = np.exp(scores - scores.max(axis=2, keepdims=True))
    return scores, exponentials / exponentials.sum(axis=2, keepdims=True)


def _stack(steps: Sequence[ScoresWeights]) -> ScoresWeights:  # (H, 1, 1 to T or P) -> (H, T, T or P)
    """Join the queries of all steps; what a step could not see yet is masked."""
    columns = steps[-1][0].shape[2]

    def joined(part: int, fill: float) -> Scores:
        rows = [step[part] for step in steps]
        widened = [np.pad(row, ((0, 0), (0, 0), (0, columns - row.shape[2])), constant_values=fill) for row in rows]
        return np.concatenate(widened, axis=1)

    return joined(0, -np.inf), joined(1, 0.0)


def _joined(kind: AttentionKind, layers: Sequence[ScoresWeights], graph: ObservedGraph) -> AttentionMaps:
    scores, weights = (np.stack(parts) for parts in zip(*layers, strict=True))
    recomputed = any(site.kind != "plain" for site in graph.values.attention)
    return AttentionMaps(kind=kind, scores=scores, weights=weights, recomputed=recomputed)


def _positions(found: NDArray[Any], length: int) -> Scores:  # (P, D) or (1, P, D) -> (S, D)
    positions: Scores = found.reshape(-1, found.shape[-1])[:length].astype(np.float32)
    return positions


def _cache_kind(outputs: Sequence[str]) -> CacheKind:
    present = {tensor_names.present_of(name): kind for name, kind in FIRST_STATES.items()}
    return next((kind for name, kind in present.items() if name in outputs), "states")  # of a user module


def _added(states: NDArray[Any], *, grows: bool) -> float:
    """Return the norm of what the last step has written: the newest position, or a state as it is now."""
    newest = states[0, :, -1] if grows else states[0]
    return float(np.linalg.norm(newest.astype(np.float64)))
