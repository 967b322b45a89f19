"""Explain the translation of one sentence: run it, measure its parts, and look inside."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from seq2edge.bundle.bundle import Manifest
from seq2edge.config.generation import GenerationOptions
from seq2edge.engine.engine import OnnxEngine
from seq2edge.errors import DataError, UsageError
from seq2edge.explain.beam_tree import BeamTree, grow_tree
from seq2edge.explain.replay import Replay, Replayer
from seq2edge.results import Translation
from seq2edge.search import BatchContext, DecoderState, Ids, Scores, StepOutput, TopK
from seq2edge.search.batch_decode import Sentence, decode_batches
from seq2edge.search.log_softmax import chosen_log_probabilities
from seq2edge.text.segments import Segment
from seq2edge.text.vocabularies import Vocabulary
from seq2edge.translator import Translator, translation_of

LIKELIEST = 12  # tokens of each step
TEMPERATURES = tuple(round(0.05 * step, 2) for step in range(2, 41))  # 0.1 to 2


@dataclass(frozen=True, kw_only=True)
class Times:
    """Seconds of a second run, when everything is loaded."""

    threads: int
    tokenize: float
    encoder: float
    decoder: tuple[float, ...]  # each call
    search: float  # everything between the calls
    detokenize: float


@dataclass(frozen=True, kw_only=True)
class ExplainedStep:
    """The likeliest next tokens of a step."""

    tokens: tuple[int, ...]  # the likeliest first; the chosen one comes last if it is not among them
    logits: tuple[float, ...]
    log_totals: tuple[float, ...]  # log(sum(exp(logit / temperature))) for each of ``TEMPERATURES``
    chosen: int
    log_probability: float  # of the chosen token under the model itself


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Everything that a page shows of one sentence and one bundle."""

    name: str
    manifest: Manifest
    options: GenerationOptions
    text: str
    source: tuple[int, ...]
    source_pieces: tuple[str, ...]
    translation: Translation
    inputs: tuple[int, ...]  # of the decoder: the start token, and all tokens of the translation but the last
    target_pieces: tuple[str, ...]  # of the start token and all tokens of the translation
    pieces: dict[int, str]  # of every token that appears
    steps: tuple[ExplainedStep, ...]
    replay: Replay
    tree: BeamTree | None  # None: not a beam search
    times: Times
    notes: tuple[str, ...]


def explain(translator: Translator, text: str, **options: Any) -> Explanation:
    """Explain the translation of one sentence; options are those of ``Translator.translate``.

    The translator must run on the CPU. A shortlist is not used.
    """
    engine = _plain_engine(translator)
    split = translator.split([text], **options)
    if len(split.segments) != 1:
        raise _not_one(len(split.segments))
    [segment], generation = split.segments, _with_seed(split.call.generation)
    if generation.num_return_sequences > 1:
        raise UsageError("num_return_sequences is more than 1, but one translation is explained: leave it out")
    for _ in range(2):  # the first run loads what is loaded on first use
        translation, times = _measure(translator, engine, text, segment, generation, options)
    inputs = (generation.decoder_start_token_id, *translation.tokens[:-1])
    replay = Replayer(translator.bundle, threads=translator.threads).replay(segment.ids, inputs)
    steps = tuple(_step(logits, token) for logits, token in zip(replay.logits, translation.tokens, strict=True))
    tree = _tree(engine, segment.ids, generation, translator.longest) if generation.num_beams > 1 else None
    tokenizer = translator.tokenizer.with_tags(split.call.tags).with_source_prefix(split.call.text.source_prefix)
    pieces = {token: _piece(tokenizer.target, token) for token in _seen(inputs, translation, steps, tree)}
    return Explanation(
        name=translator.bundle.folder.resolve().name,
        manifest=translator.manifest,
        options=generation,
        text=segment.text,
        source=tuple(segment.ids),
        source_pieces=tuple(tokenizer.frame.truncate(tokenizer.tokenize_source(segment.text), len(segment.ids))),
        translation=translation,
        inputs=inputs,
        target_pieces=tuple(pieces[token] for token in (*inputs, translation.tokens[-1])),
        pieces=pieces,
        steps=steps,
        replay=replay,
        tree=tree,
        times=times,
        notes=tuple(_notes(translator, generation, translation)),
    )


def _measure(
    translator: Translator,
    engine: OnnxEngine,
    text: str,
    segment: Segment,
    generation: GenerationOptions,
    options: dict[str, Any],
) -> tuple[Translation, Times]:
    """Translate as ``Translator.translate`` does, with a clock between its parts."""
    watch, sentences = _Stopwatch(engine), [Sentence(source=segment.ids)]
    started = time.perf_counter()
    translator.split([text], **options)
    tokenized = time.perf_counter()
    [found] = decode_batches(watch, sentences, generation, longest=translator.longest)
    decoded = time.perf_counter()
    translation = translation_of(segment, found[0][0], (), translator.tokenizer)
    return translation, Times(
        threads=translator.threads,
        tokenize=tokenized - started,
        encoder=watch.encoder,
        decoder=tuple(watch.decoder),
        search=decoded - tokenized - watch.encoder - sum(watch.decoder),
        detokenize=time.perf_counter() - decoded,
    )


def _seen(
    inputs: Sequence[int], translation: Translation, steps: Sequence[ExplainedStep], tree: BeamTree | None
) -> list[int]:
    """Return every token that appears, sorted."""
    seen = {*inputs, *translation.tokens, *(token for step in steps for token in step.tokens)}
    return sorted(seen | {node.token for nodes in (tree.steps if tree else ()) for node in nodes})


def _piece(vocabulary: Vocabulary, token: int) -> str:
    """Return the text of a token; some models have logits for more ids than their vocabulary."""
    return vocabulary.piece(token) if token < vocabulary.get_piece_size() else f"<{token}>"


def _plain_engine(translator: Translator) -> OnnxEngine:
    """Return an engine without a shortlist, on the CPU."""
    if translator.device_config.device != "cpu":
        raise UsageError(
            f"device is {translator.device_config.device}, but only the CPU can be explained: leave it out"
        )
    if not translator.shortlist:
        return translator.engine
    return OnnxEngine(translator.bundle, threads=translator.threads)


def _with_seed(options: GenerationOptions) -> GenerationOptions:
    """Let all runs draw the same tokens."""
    return replace(options, seed=0) if options.do_sample and options.seed is None else options


def _not_one(sentences: int) -> DataError:
    if not sentences:
        return DataError("the text has no visible characters; give a sentence to explain")
    return DataError(
        f"the text has {sentences} sentences, but a page explains one: give one of them, or --split none to treat them "
        "as one"
    )


def _tree(engine: OnnxEngine, source: list[int], options: GenerationOptions, longest: int) -> BeamTree:
    context = BatchContext(sentence_ids=[0], segment_ids=[0])
    limited = options.within(1 + longest, prefix_length=1)
    return grow_tree(engine.start([source]), [options.decoder_start_token_id], limited, context)


def _step(logits: Scores, chosen: int) -> ExplainedStep:  # (V,)
    order = np.argsort(-logits, kind="stable")[:LIKELIEST].tolist()
    tokens = order if chosen in order else [*order, chosen]
    wide = logits.astype(np.float64)
    return ExplainedStep(
        tokens=tuple(tokens),
        logits=tuple(logits[tokens].tolist()),
        log_totals=tuple(_log_total(wide / temperature) for temperature in TEMPERATURES),
        chosen=chosen,
        log_probability=float(chosen_log_probabilities(logits[None], np.array([chosen]))[0]),
    )


def _log_total(logits: Any) -> float:
    peak = logits.max()
    return float(peak + np.log(np.exp(logits - peak).sum()))


def _notes(translator: Translator, options: GenerationOptions, translation: Translation) -> Iterator[str]:
    yield from (f"The translation {note}." for note in translation.notes)
    if translator.shortlist:
        yield "The bundle's shortlist is not used here: the search sees the whole vocabulary."
    if options.do_sample:
        yield f"The search draws random tokens, here with the seed {options.seed}."


class _Stopwatch:
    """An engine that measures another one."""

    def __init__(self, engine: OnnxEngine) -> None:
        self.engine, self.encoder, self.decoder = engine, 0.0, list[float]()

    def start(self, sources: list[list[int]]) -> DecoderState:
        started = time.perf_counter()
        state = self.engine.start(sources)
        self.encoder = time.perf_counter() - started
        return _MeasuredState(state, self.decoder)


class _MeasuredState(DecoderState):
    def __init__(self, state: DecoderState, seconds: list[float]) -> None:
        self.state, self.seconds = state, seconds
        self.selects_on_device = state.selects_on_device

    def step(self, tokens: Ids, rows: Ids) -> StepOutput:
        with self._measured():
            return self.state.step(tokens, rows)

    def extend(self, tokens: list[int]) -> StepOutput:
        with self._measured():
            return self.state.extend(tokens)

    def top_k(self, tokens: Ids, rows: Ids, k: int) -> TopK:
        with self._measured():
            return self.state.top_k(tokens, rows, k)

    @contextmanager
    def _measured(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds.append(time.perf_counter() - started)
