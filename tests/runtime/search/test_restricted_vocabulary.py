"""A search among some words finds what a search among all finds where the others are impossible."""

from itertools import chain

import numpy as np
import pytest
from tolerances import log_softmax_rounding, score_rounding

from seq2edge.errors import WrongValueError
from seq2edge.search import BatchContext, DecoderState, StepOutput, StreamingSearch, prefix_block, search
from seq2edge.search.restricted_vocabulary import RestrictableState

VOCABULARY = 12
LISTS = [[2, 3, 5, 6, 9], [2, 4, 5, 8, 11], [2, 3, 7, 10]]  # of each sentence; 2 ends
STARTS = [[0]] * len(LISTS)
SAME = log_softmax_rounding(VOCABULARY, 8)  # logits with a standard deviation of 2


def masked(table, lists):
    """The logits of a sentence, minus infinity where it may not say a word."""

    def look_up(sentence, tokens):
        allowed = np.isin(np.arange(VOCABULARY), lists[sentence])
        return np.where(allowed, table(sentence, tokens), -np.inf)

    return look_up


class Restrictable(RestrictableState):
    """A step that knows the words of its sentences, and counts how often it was asked for all scores."""

    vocabulary_size = VOCABULARY

    def __init__(self, decoder, table, lists) -> None:
        self.decoder, self.table, self.lists = decoder, table, lists
        self.whole = 0

    def restrict(self, allowed, known):
        lists = [sorted({*own, *allowed.tolist()}) for own in self.lists]
        self.state = self.decoder(masked(self.table, lists))
        token_ids = np.array(sorted({*chain(*lists), *known.tolist()}))
        return token_ids, Columns(self.state, token_ids)

    def step(self, tokens, rows):
        self.whole += 1
        return self.state.step(tokens, rows)


class Columns(DecoderState):
    def __init__(self, state, token_ids) -> None:
        self.state, self.token_ids = state, token_ids

    def step(self, tokens, rows):
        return StepOutput(self.state.step(tokens, rows).logits[:, :, self.token_ids])


def both(decoder, table, options, *, prefixes=STARTS, forced=(), hook=None):
    lists = [[*own, *forced] for own in LISTS]
    whole = search(decoder(masked(table(VOCABULARY), lists)), prefixes, options, BatchContext(hook=hook))
    narrow = search(Restrictable(decoder, table(VOCABULARY), LISTS), prefixes, options, BatchContext(hook=hook))
    return whole, narrow


def assert_same(whole, narrow) -> None:
    for several, others in zip(whole, narrow, strict=True):
        assert [one.tokens for one in several] == [one.tokens for one in others]
        for one, other in zip(several, others, strict=True):
            assert one.token_scores == pytest.approx(other.token_scores, abs=SAME)
            assert one.score == pytest.approx(other.score, abs=score_rounding(len(one.tokens), SAME))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"num_beams": 3, "num_return_sequences": 2},
        {"repetition_penalty": 1.7},
        {"no_repeat_ngram_size": 2, "num_beams": 2},
        {"bad_words_ids": ((5,), (6, 9), (1, 4)), "num_beams": 2},
        {"suppress_tokens": (3, 4, 1, 500)},
        {"min_new_tokens": 4},
        {"do_sample": True, "seed": 3, "num_return_sequences": 3, "top_k": 4},
        {"do_sample": True, "seed": 3, "num_beams": 3},
        {"renormalize_logits": True, "num_beams": 2},
        {"eos_token_id": (2, 9)},
    ],
    ids=str,
)
def test_options_keep_their_meaning(decoder, table, options, given) -> None:
    assert_same(*both(decoder, table, options(**given), forced=[9] if "eos_token_id" in given else ()))


@pytest.mark.parametrize("beams", [1, 3])
def test_what_is_forced_can_be_said_though_no_list_has_it(decoder, table, options, beams) -> None:
    chosen = options(forced_bos_token_id=1, forced_eos_token_id=4, num_beams=beams)
    whole, narrow = both(decoder, table, chosen, forced=[1, 4])
    assert_same(whole, narrow)
    assert all(one.tokens[0] == 1 for [one] in narrow)


def test_a_prefix_may_have_words_that_no_list_has(decoder, table, options) -> None:
    assert_same(*both(decoder, table, options(repetition_penalty=2.0, num_beams=2), prefixes=[[0, 1, 4]] * len(LISTS)))


@pytest.mark.parametrize("beams", [1, 2])
def test_a_hook_sees_the_whole_vocabulary_and_ids(decoder, table, options, beams) -> None:
    shapes = set()

    def no_fives(sentences, tokens, scores):
        shapes.add(scores.shape[1])
        scores[:, 5] = -np.inf
        return scores

    whole, narrow = both(decoder, table, options(num_beams=beams), hook=no_fives)
    assert_same(whole, narrow)
    assert shapes == {VOCABULARY}
    assert not any(5 in one.tokens for [one] in narrow)


@pytest.mark.parametrize("beams", [1, 3])
def test_what_grows_is_told_in_ids(decoder, table, options, beams) -> None:
    chosen = options(num_beams=beams)
    state = Restrictable(decoder, table(VOCABULARY), LISTS[:1])
    growing = StreamingSearch(state, prefix_block([[0]], chosen), chosen, BatchContext())
    *_, last = growing
    [[found], *_] = both(decoder, table, chosen)[0]
    assert growing.result is not None
    assert growing.result.tokens == last == found.tokens


def test_nobody_looks_at_the_whole_vocabulary_without_need(decoder, table, options) -> None:
    step = Restrictable(decoder, table(VOCABULARY), LISTS)
    search(step, STARTS, options(num_beams=2, suppress_tokens=(3,), bad_words_ids=((5,),)))
    assert step.whole == 0


def test_a_token_outside_the_vocabulary_is_an_error(decoder, table, options) -> None:
    with pytest.raises(WrongValueError, match="name the token 12, but the vocabulary has 12"):
        search(Restrictable(decoder, table(VOCABULARY), LISTS), STARTS, options(bad_words_ids=((12,),)))
