"""Each processor must change scores as the one of transformers does, to the last bit where no sum is involved."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation import logits_process as theirs

from seq2edge.search import logits_processors as ours

END, VOCABULARY = (2, 3), 12

PAIRS: dict[str, tuple[Callable, Callable]] = {
    "repetition_penalty": (ours.repetition_penalty(1.3), theirs.RepetitionPenaltyLogitsProcessor(1.3)),
    "no_repeat_ngram_size 1": (ours.no_repeat_ngram(1), theirs.NoRepeatNGramLogitsProcessor(1)),
    "no_repeat_ngram_size 2": (ours.no_repeat_ngram(2), theirs.NoRepeatNGramLogitsProcessor(2)),
    "no_repeat_ngram_size 4": (ours.no_repeat_ngram(4), theirs.NoRepeatNGramLogitsProcessor(4)),
    "bad_words_ids": (
        ours.no_bad_words([(4,), (1, 5), (1, 1, 6)]),
        theirs.NoBadWordsLogitsProcessor([[4], [1, 5], [1, 1, 6], [2]], eos_token_id=list(END)),
    ),
    "min_length": (ours.no_end_before(4, END), theirs.MinLengthLogitsProcessor(4, list(END))),
    "forced_bos_token_id": (ours.force_at(1, (7,)), theirs.ForcedBOSTokenLogitsProcessor(7)),
    "forced_eos_token_id": (ours.force_at(4, END), theirs.ForcedEOSTokenLogitsProcessor(5, list(END))),
    "suppress_tokens": (ours.suppress((1, 5, 99)), theirs.SuppressTokensLogitsProcessor([1, 5, 99])),
    "temperature": (ours.temperature(0.7), theirs.TemperatureLogitsWarper(0.7)),
    "top_k 1": (ours.keep_top_k(1), theirs.TopKLogitsWarper(1)),
    "top_k 5": (ours.keep_top_k(5), theirs.TopKLogitsWarper(5)),
    "top_k 50": (ours.keep_top_k(50), theirs.TopKLogitsWarper(50)),
    "top_p 0": (ours.keep_top_p(0.0, 1), theirs.TopPLogitsWarper(0.0)),
    "top_p 0.7": (ours.keep_top_p(0.7, 1), theirs.TopPLogitsWarper(0.7)),
    "top_p 0.3, at least 3": (ours.keep_top_p(0.3, 3), theirs.TopPLogitsWarper(0.3, min_tokens_to_keep=3)),
}


@pytest.mark.parametrize("name", PAIRS)
@settings(deadline=None, derandomize=True, max_examples=25)
@given(
    tokens=st.integers(1, 6).flatmap(
        lambda length: st.lists(st.lists(st.integers(0, 3), min_size=length, max_size=length), min_size=1, max_size=3)
    ),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_processor_changes_the_same_scores(name: str, tokens: list[list[int]], seed: int) -> None:
    own, wanted = PAIRS[name]
    scores = np.random.default_rng(seed).normal(scale=3, size=(len(tokens), VOCABULARY)).astype(np.float32)
    scores[:, 8] = -np.inf  # what another processor has forbidden
    expected = wanted(torch.tensor(tokens), torch.tensor(scores)).numpy()
    np.testing.assert_array_equal(own(np.array(tokens), scores.copy()), expected)


def test_a_start_token_outside_the_vocabulary_is_no_repetition() -> None:
    tokens, scores = np.array([[99, 1, 99, 1]]), np.ones((1, 4), dtype=np.float32)
    for name in ("repetition_penalty", "no_repeat_ngram_size 1", "no_repeat_ngram_size 2"):
        own, wanted = PAIRS[name]
        expected = wanted(torch.tensor(tokens), torch.tensor(scores)).numpy()
        np.testing.assert_array_equal(own(tokens, scores.copy()), expected)


def test_a_bad_word_outside_the_vocabulary_is_an_error_in_both() -> None:
    tokens, scores = np.array([[0]]), np.ones((1, 4), dtype=np.float32)
    with pytest.raises(ValueError, match="vocabulary"):
        theirs.NoBadWordsLogitsProcessor([[6]])(torch.tensor(tokens), torch.tensor(scores))
    with pytest.raises(ValueError, match="bad_words_ids holds the token 6, but the vocabulary has 4"):
        ours.no_bad_words([(6,)])(tokens, scores)
