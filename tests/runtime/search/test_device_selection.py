"""A decoder that selects tokens on its device finds what the search would have found."""

import numpy as np
import pytest
from tolerances import log_softmax_rounding, score_rounding

from seq2edge.errors import NotANumberError, WrongValueError
from seq2edge.search import BatchContext, DecoderState, StepOutput, TopK, search

STARTS = [[0]] * 4
SAME = log_softmax_rounding(8, 8)  # logits with a standard deviation of 2


class OnDevice(DecoderState):
    """A decoder that selects tokens itself, and counts the calls that asked for all logits."""

    selects_on_device = True

    def __init__(self, decoder: DecoderState) -> None:
        self.decoder = decoder
        self.selected = self.returned_all = 0

    def step(self, tokens: np.ndarray, rows: np.ndarray) -> StepOutput:
        self.returned_all += 1
        return self.decoder.step(tokens, rows)

    def top_k(self, tokens: np.ndarray, rows: np.ndarray, k: int) -> TopK:
        self.selected += 1
        return self.decoder.top_k(tokens, rows, k)


PLAIN: list[dict[str, object]] = [
    {},
    {"suppress_tokens": (3, 5)},
    {"bad_words_ids": ((4,), (6,))},
    {"min_new_tokens": 4},
    {"length_penalty": 0.4, "early_stopping": True},
]
OTHERS: list[dict[str, object]] = [
    {"repetition_penalty": 1.5},
    {"no_repeat_ngram_size": 2},
    {"bad_words_ids": ((4, 5),)},
    {"renormalize_logits": True},
    {"do_sample": True, "seed": 3},
]


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("given", [*PLAIN, *OTHERS])
def test_the_outputs_are_those_of_a_plain_step(decoder, table, options, given, num_beams: int) -> None:
    wanted = options(num_beams=num_beams, **given)
    step = OnDevice(decoder(table(8)))
    found, plain = search(step, STARTS, wanted), search(decoder(table(8)), STARTS, wanted)
    assert [[one.tokens for one in ranked] for ranked in found] == [[one.tokens for one in ranked] for ranked in plain]
    for ours, theirs in zip(found, plain, strict=True):
        assert ours[0].score == pytest.approx(theirs[0].score, abs=score_rounding(len(ours[0].tokens), SAME))
    assert step.selected + step.returned_all > 1


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("given", PLAIN)
def test_a_plain_search_never_asks_for_all_scores(decoder, table, options, given, num_beams: int) -> None:
    step = OnDevice(decoder(table(8)))
    search(step, STARTS, options(num_beams=num_beams, **given))
    assert (step.returned_all, step.selected > 1) == (0, True)


def test_a_forced_token_is_the_only_step_that_needs_all_scores(decoder, table, options) -> None:
    step = OnDevice(decoder(table(8)))
    search(step, STARTS, options(forced_bos_token_id=5))
    assert step.returned_all == 1


def test_a_hook_sees_all_scores(decoder, table, options) -> None:
    step = OnDevice(decoder(table(8)))
    search(step, STARTS, options(), BatchContext(hook=lambda sentences, tokens, scores: scores))
    assert step.selected == 0


def test_that_all_is_forbidden_is_an_error(decoder, table, options) -> None:
    with pytest.raises(WrongValueError, match="forbid every token"):
        search(OnDevice(decoder(table(8))), STARTS, options(suppress_tokens=tuple(range(8))))


def test_scores_that_are_not_numbers_are_an_error(decoder, options) -> None:
    with pytest.raises(NotANumberError):
        search(OnDevice(decoder(lambda sentence, tokens: [np.nan] * 8)), STARTS, options())
