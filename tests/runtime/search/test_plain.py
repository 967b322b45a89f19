"""The search for plain options returns what the general one does, to the last bit."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2edge.errors import NotANumberError
from seq2edge.search import BatchContext, DecoderState, Ids, StepOutput, plain_arrays, prefix_block
from seq2edge.search.beam import beam_search
from seq2edge.search.greedy import greedy
from seq2edge.search.log_softmax import log_normalizer, log_totals
from seq2edge.search.plain import PlainBeamSearch, is_plain, plain_beam_search, plain_greedy
from seq2edge.search.plain_arrays import ArrayBeamSearch, select, select_by_row


class WithTotals(DecoderState):
    """A decoder that computes the log-normalizers itself, as graphs do."""

    def __init__(self, state: DecoderState) -> None:
        self.state = state

    def step(self, tokens: Ids, rows: Ids) -> StepOutput:
        logits = self.state.step(tokens, rows).logits
        return StepOutput(logits, log_normalizer(logits.reshape(rows.size, -1))[1][:, 0])


def rounded(table: Any, digits: int) -> Any:
    """Logits with few digits, so that many are equal."""
    return lambda sentence, tokens: np.round(table(sentence, tokens), digits)


CASES = {
    "vocabulary": st.integers(3, 40),
    "sharpness": st.sampled_from([0.1, 1.0, 4.0]),
    "end_bonus": st.sampled_from([-3.0, 0.0, 2.0, 20.0]),
    "digits": st.sampled_from([0, 1, 9]),
    "sentences": st.integers(1, 5),
    "prefix": st.integers(1, 3),
    "known": st.booleans(),
    "seed": st.integers(0, 1000),
    "max_new_tokens": st.integers(1, 12),
    "eos_token_id": st.sampled_from([2, (2, 1), (0, 1, 2)]),
}


def both_searches(decoder, table, options, general, plain, case: dict[str, Any]) -> None:
    numbers = {name: case.pop(name) for name in ("sentences", "prefix", "known", "seed", "digits")}
    shape = {name: case.pop(name) for name in ("vocabulary", "sharpness", "end_bonus")}
    logits = rounded(table(**shape), numbers["digits"])
    shifted = lambda sentence, tokens: logits(sentence + numbers["seed"], tokens)  # noqa: E731
    chosen, context = options(**case), BatchContext()
    prefixes = prefix_block([[0] * numbers["prefix"]] * numbers["sentences"], chosen)
    states = [decoder(shifted), decoder(shifted)]
    if numbers["known"]:
        states = [WithTotals(state) for state in states]
    assert is_plain(states[0], prefixes, chosen, context)
    assert plain(states[0], prefixes, chosen) == general(states[1], prefixes, chosen, context)


@settings(max_examples=200, deadline=None)
@given(case=st.fixed_dictionaries(CASES))
def test_greedy(decoder, table, options, case) -> None:
    both_searches(decoder, table, options, greedy, plain_greedy, case)


BEAMS = {
    "num_beams": st.integers(2, 6),
    "length_penalty": st.sampled_from([-2.0, 0.0, 0.6, 1.0, 3.0, 100.0]),
    "early_stopping": st.sampled_from([True, False, "never"]),
}


@pytest.mark.parametrize("search", [PlainBeamSearch, ArrayBeamSearch])
@settings(max_examples=300, deadline=None)
@given(case=st.fixed_dictionaries(CASES | BEAMS), returned=st.integers(1, 6))
def test_beam_search(decoder, table, options, search, case, returned: int) -> None:
    def plain(state: DecoderState, prefixes: Ids, options: Any) -> Any:
        return search(prefixes, options).run(state, prefixes)

    case = case | {"num_return_sequences": min(returned, case["num_beams"])}
    both_searches(decoder, table, options, beam_search, plain, case)


@settings(max_examples=40, deadline=None)
@given(case=st.fixed_dictionaries(CASES | BEAMS | {"vocabulary": st.integers(512, 1500)}))
def test_beam_search_with_groups_of_scores(decoder, table, options, case) -> None:
    def plain(state: DecoderState, prefixes: Ids, options: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plain_arrays, "MANY", 0)
            return ArrayBeamSearch(prefixes, options).run(state, prefixes)

    both_searches(decoder, table, options, beam_search, plain, case)


SELECTIONS = {
    "batch": st.integers(1, 5),
    "beams": st.integers(1, 6),
    "vocabulary": st.integers(512, 9000),
    "count": st.integers(2, 40),
    "digits": st.sampled_from([0, 1, 5]),  # few, so that many scores are equal
    "forbidden": st.sampled_from([0.0, 0.5, 1.0]),
    "scale": st.sampled_from([1e-3, 1.0, 30.0]),
    "seed": st.integers(0, 1000),
}


@settings(max_examples=200, deadline=None)
@given(case=st.fixed_dictionaries(SELECTIONS))
def test_selecting_by_sentence_finds_what_selecting_by_row_does(case) -> None:
    random = np.random.default_rng(case["seed"])
    shape = (case["batch"], case["beams"], case["vocabulary"])
    logits = np.round(random.standard_normal(shape) * case["scale"], case["digits"]).astype(np.float32)
    logits[random.random(shape) < case["forbidden"]] = -np.inf
    logits[:, :, 7] = 0  # a token that is never forbidden
    so_far = np.round(random.standard_normal(shape[:2]) * case["scale"], case["digits"]).astype(np.float32)
    so_far[random.random(shape[:2]) < 0.1] = -1e9  # beams that do not exist
    output = StepOutput(logits, log_normalizer(logits.reshape(-1, shape[2]))[1][:, 0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_arrays, "MANY", 0)
        found = select(output, so_far, case["count"])
    expected = select_by_row(output, log_totals(output), so_far, case["count"])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("num_beams", [1, 3])
def test_logits_that_are_not_numbers_are_refused(decoder, options, bad: float, known: bool, num_beams: int) -> None:
    state = decoder(lambda sentence, tokens: [0.0, 1.0, bad, 2.0])
    plain = plain_beam_search if num_beams > 1 else plain_greedy
    state = WithoutCheck(state) if known else state
    with pytest.raises(NotANumberError), np.errstate(invalid="ignore"):
        plain(state, np.zeros((2, 1), np.int64), options(num_beams=num_beams))


class WithoutCheck(DecoderState):
    """Log-normalizers as a graph computes them, which checks nothing."""

    def __init__(self, state: DecoderState) -> None:
        self.state = state

    def step(self, tokens: Ids, rows: Ids) -> StepOutput:
        logits = self.state.step(tokens, rows).logits
        flat = logits.reshape(rows.size, -1)
        return StepOutput(logits, np.log(np.exp(flat - flat.max(axis=1, keepdims=True)).sum(axis=1)))


@pytest.mark.parametrize(
    "given", [{"do_sample": True}, {"suppress_tokens": (3,)}, {"no_repeat_ngram_size": 2}, {"min_new_tokens": 2}]
)
def test_other_options_are_not_plain(decoder, table, options, given: dict[str, Any]) -> None:
    assert not is_plain(decoder(table()), np.zeros((1, 1), np.int64), options(**given), BatchContext())


def test_a_hook_is_not_plain(decoder, table, options) -> None:
    context = BatchContext(hook=lambda sentences, tokens, scores: scores)
    assert not is_plain(decoder(table()), np.zeros((1, 1), np.int64), options(), context)
