from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import log_softmax_rounding, score_rounding, sum_rounding

from seq2edge.errors import UsageError
from seq2edge.search import BatchContext, search
from seq2edge.search.logits_processors import LogitsProcessors

SENTENCES = 5
STARTS = [[0]] * SENTENCES
SAME = log_softmax_rounding(8, 10)  # logits with a standard deviation of 2 and a bonus of 2


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.exp(logits).sum())


def every_output(table, sentence: int, length: int) -> dict[tuple[int, ...], float]:
    """The log-probability of every output that ends with token 2 or is cut at the length, computed one by one."""
    outputs = {}
    size = len(table(sentence, (0,)))
    for tokens in product(range(size), repeat=length):
        tokens = tokens[: tokens.index(2) + 1] if 2 in tokens else tokens
        steps = range(len(tokens))
        outputs[tokens] = sum(log_softmax(table(sentence, (0, *tokens[:n])))[tokens[n]] for n in steps)
    return outputs


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0])
def test_with_beams_for_all_outputs_the_best_of_all_are_found(decoder, table, options, length_penalty: float) -> None:
    logits = table(4)
    wide = options(
        num_beams=64, num_return_sequences=5, max_new_tokens=3, length_penalty=length_penalty, early_stopping="never"
    )
    for sentence, found in enumerate(search(decoder(logits), [[0]] * 2, wide)):
        outputs = {
            tokens: score / len(tokens) ** length_penalty for tokens, score in every_output(logits, sentence, 3).items()
        }
        best = sorted(outputs, key=lambda tokens: -outputs[tokens])[:5]
        assert [tuple(hypothesis.tokens) for hypothesis in found] == best
        assert [hypothesis.score for hypothesis in found] == pytest.approx(
            [outputs[tokens] for tokens in best], abs=score_rounding(3, SAME)
        )


def test_a_search_with_beams_can_beat_a_greedy_one(decoder, options) -> None:
    after = {(0,): [0, 0, 0, 0.6, 0.4], (0, 3): [0, 0, 0.5, 0.25, 0.25], (0, 4): [0, 0, 1, 0, 0]}
    step = decoder(lambda sentence, tokens: np.log(np.array(after[tokens]) + 1e-9))
    [[greedy]] = search(decoder(step.table), [[0]], options())
    [[best]] = search(step, [[0]], options(num_beams=2, max_new_tokens=2, early_stopping=True))
    assert (greedy.tokens, best.tokens) == ([3, 2], [4, 2])
    assert best.score == pytest.approx(np.log(0.4) / 2, abs=log_softmax_rounding(5, np.log(1e9)))


def test_token_scores_add_up_to_the_score(decoder, table, options) -> None:
    found = search(
        decoder(table(end_bonus=2)), STARTS, options(num_beams=3, num_return_sequences=3, length_penalty=0.7)
    )
    for hypothesis in (one for of_sentence in found for one in of_sentence):
        assert len(hypothesis.token_scores) == len(hypothesis.tokens)
        count, total = len(hypothesis.tokens), sum(hypothesis.token_scores)
        assert hypothesis.score == pytest.approx(total / count**0.7, abs=sum_rounding(count, -total))


def test_hypotheses_come_best_first_and_differ(decoder, table, options) -> None:
    for found in search(decoder(table(end_bonus=2)), STARTS, options(num_beams=4, num_return_sequences=4)):
        scores = [hypothesis.score for hypothesis in found]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(hypothesis.tokens) for hypothesis in found}) == 4


def test_only_what_ends_with_an_end_token_has_ended(decoder, table, options) -> None:
    found = search(decoder(table(end_bonus=1)), STARTS, options(num_beams=4, num_return_sequences=4))
    hypotheses = [hypothesis for of_sentence in found for hypothesis in of_sentence]
    assert [one.ended for one in hypotheses] == [one.tokens[-1] == 2 for one in hypotheses]
    assert {one.ended for one in hypotheses} == {True, False}
    assert all(one.ended or len(one.tokens) == 8 for one in hypotheses)
    assert all(2 not in one.tokens[:-1] for one in hypotheses)


def test_a_sentence_that_is_done_leaves_at_once(decoder, table, options) -> None:
    step = decoder(table(end_bonus=2))
    search(step, STARTS, options(num_beams=3, max_new_tokens=30))
    together = np.bincount(np.concatenate(step.calls))
    alone = []
    for sentence in range(SENTENCES):
        step = decoder(lambda _, tokens, sentence=sentence: table(end_bonus=2)(sentence, tokens))
        search(step, [[0]], options(num_beams=3, max_new_tokens=30))
        alone.append(len(step.calls))
    assert together.tolist() == alone
    assert len(set(alone)) > 1


def test_of_equal_candidates_the_first_token_of_the_first_beam_wins(decoder, options) -> None:
    step = decoder(lambda sentence, tokens: np.zeros(9))
    [found] = search(step, [[0]], options(num_beams=3, num_return_sequences=3, max_new_tokens=2, suppress_tokens=(2,)))
    assert [hypothesis.tokens for hypothesis in found] == [[0, 0], [0, 1], [0, 3]]


def test_early_stopping_asks_the_decoder_less_often(decoder, table, options) -> None:
    calls = []
    for early in (True, False, "never"):
        step = decoder(table(end_bonus=2))
        search(step, STARTS, options(num_beams=3, max_new_tokens=40, early_stopping=early, length_penalty=1.5))
        calls.append(sum(map(len, step.calls)))
    assert calls == sorted(calls)
    assert calls[0] < calls[-1]


@pytest.mark.parametrize("given", [{}, {"do_sample": True, "top_p": 0.5, "seed": 1}])
def test_where_nothing_is_allowed_there_is_no_answer(decoder, table, options, given: dict[str, object]) -> None:
    def nothing(sentences: np.ndarray, tokens: np.ndarray, scores: np.ndarray) -> np.ndarray:
        return np.full_like(scores, -np.inf)

    with pytest.raises(UsageError, match="forbid every token"):
        search(
            decoder(table()), [[0]], options(num_beams=3, num_return_sequences=2, **given), BatchContext(hook=nothing)
        )


def test_what_has_ended_is_the_answer_where_nothing_can_go_on(decoder, table, options) -> None:
    def the_end_and_then_nothing(sentences: np.ndarray, tokens: np.ndarray, scores: np.ndarray) -> np.ndarray:
        return scores if tokens.shape[1] < 3 else np.full_like(scores, -np.inf)

    ending = decoder(lambda sentence, tokens: np.array([0, 0, 1, 0.5, 0]))
    [[found]] = search(ending, [[0]], options(num_beams=3), BatchContext(hook=the_end_and_then_nothing))
    assert found.tokens == [2]


def test_one_beam_may_come_to_nothing(decoder, table, options) -> None:
    def nothing_behind_a_five(sentences: np.ndarray, tokens: np.ndarray, scores: np.ndarray) -> np.ndarray:
        return np.where(tokens[:, -1:] == 5, -np.inf, scores)

    [[found]] = search(
        decoder(lambda sentence, tokens: np.eye(8)[5] * 9),
        [[0]],
        options(num_beams=2),
        BatchContext(hook=nothing_behind_a_five),
    )
    assert 5 not in found.tokens[:-1]


def test_a_hook_cannot_change_the_tokens(decoder, table, options) -> None:
    def write_over(sentences: np.ndarray, tokens: np.ndarray, scores: np.ndarray) -> np.ndarray:
        tokens[:] = 7
        return scores

    plain = search(decoder(table()), STARTS, options(num_beams=3))
    assert search(decoder(table()), STARTS, options(num_beams=3), BatchContext(hook=write_over)) == plain


def test_rules_that_are_over_step_aside(options) -> None:
    given_options = options(min_new_tokens=2, forced_bos_token_id=5, forced_eos_token_id=2)
    processors = LogitsProcessors(given_options, 1, BatchContext())
    assert [length for length in range(1, 9) if processors.needed(length)] == [1, 2, 8]


@pytest.mark.parametrize("length_penalty", [-100.0, 100.0])
def test_the_steepest_length_penalties_still_give_numbers(decoder, table, options, length_penalty: float) -> None:
    steep = options(num_beams=2, num_return_sequences=2, max_new_tokens=30, length_penalty=length_penalty)
    found = search(decoder(table(end_bonus=-9)), STARTS, steep)
    assert all(np.isfinite(one.score) for of_sentence in found for one in of_sentence)


def test_a_hook_that_allows_one_output_finds_it(decoder, table, options) -> None:
    wanted = [5, 6, 5, 2]

    def only_wanted(sentences: np.ndarray, tokens: np.ndarray, scores: np.ndarray) -> np.ndarray:
        return np.where(np.arange(scores.shape[1]) == wanted[tokens.shape[1] - 1], scores, -np.inf)

    [[found]] = search(decoder(table()), [[0]], options(num_beams=4), BatchContext(hook=only_wanted))
    assert found.tokens == wanted
    expected = [log_softmax(table()(0, (0, *wanted[:n])))[wanted[n]] for n in range(4)]
    assert found.token_scores == pytest.approx(expected, abs=SAME)


def test_scores_agree_between_a_plain_search_and_one_with_an_idle_hook(decoder, table, options) -> None:
    given_options = options(num_beams=4, num_return_sequences=4)
    plain = search(decoder(table(600)), STARTS, given_options)
    hooked = search(
        decoder(table(600)), STARTS, given_options, BatchContext(hook=lambda sentences, tokens, scores: scores)
    )
    assert plain == hooked


chances = st.fixed_dictionaries(
    {},
    optional={
        "num_beams": st.integers(1, 5),
        "min_new_tokens": st.integers(0, 4),
        "no_repeat_ngram_size": st.integers(0, 3),
        "repetition_penalty": st.sampled_from([0.5, 1.5]),
        "early_stopping": st.sampled_from([True, False, "never"]),
        "length_penalty": st.sampled_from([-1.0, 0.0, 0.5, 2.0]),
        "forced_bos_token_id": st.integers(3, 7),
        "forced_eos_token_id": st.just(2),
        "bad_words_ids": st.just(((4, 5), (6,))),
        "eos_token_id": st.just((2, 3)),
        "do_sample": st.booleans(),
        "top_k": st.integers(0, 8),
    },
)


@settings(deadline=None, derandomize=True, max_examples=120)
@given(chances=chances, chosen=st.sets(st.integers(0, SENTENCES - 1), min_size=1))
def test_what_a_sentence_becomes_does_not_depend_on_its_batch_mates(
    decoder, table, options, chances: dict[str, object], chosen: set[int]
) -> None:
    given_options = options(**{"num_return_sequences": chances.get("num_beams", 1), "seed": 7, **chances})
    logits = table(end_bonus=1)
    numbers = sorted(chosen)
    together = search(decoder(logits), STARTS, given_options)
    step = decoder(lambda sentence, tokens: logits(numbers[sentence], tokens))
    fewer = search(step, [[0]] * len(numbers), given_options, BatchContext(sentence_ids=numbers))
    assert fewer == [together[number] for number in numbers]


def test_hypotheses_that_stand_for_no_beam_are_marked(decoder, options) -> None:
    """Only two outputs of one token exist, so the other two of four are placeholders, as in transformers."""

    def one_or_the_end(sentence: int, tokens: tuple[int, ...]) -> np.ndarray:
        return np.array([-np.inf, -np.inf, 1.0, 0.5], dtype=np.float32)

    [found] = search(decoder(one_or_the_end), [[0]], options(num_beams=4, num_return_sequences=4, max_new_tokens=1))
    assert [one.tokens for one in found if not one.placeholder] == [[2], [3]]
    assert all(one.score < -1e8 for one in found if one.placeholder)
