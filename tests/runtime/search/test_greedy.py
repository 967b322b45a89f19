import numpy as np
import pytest
from tolerances import log_softmax_rounding, score_rounding

from seq2edge.errors import NotANumberError, UsageError
from seq2edge.search import BatchContext, DecoderState, StepOutput, prefix_block, search
from seq2edge.search.greedy import greedy_steps

STARTS = [[0]] * 6
SAME = log_softmax_rounding(6, 5)  # at most 6 tokens, and logits of at most 5


def test_the_likeliest_token_is_taken_until_the_end_token(decoder, options) -> None:
    follows = {0: 3, 3: 4, 4: 2}  # start, 3, 4, end
    step = decoder(lambda sentence, tokens: np.eye(5)[follows[tokens[-1]]])
    [[found]] = search(step, [[0]], options())
    assert found.tokens == [3, 4, 2]
    assert found.ended


def test_an_output_is_cut_at_the_limit(decoder, options) -> None:
    step = decoder(lambda sentence, tokens: np.eye(5)[3])
    [[found]] = search(step, [[0]], options(max_new_tokens=4))
    assert found.tokens == [3, 3, 3, 3]
    assert not found.ended


def test_the_score_is_the_sum_of_the_log_probabilities(decoder, options) -> None:
    step = decoder(lambda sentence, tokens: np.log([0.1, 0.1, 0.2, 0.6]))
    [[found]] = search(step, [[0]], options(max_new_tokens=2))
    assert found.token_scores == pytest.approx([np.log(0.6)] * 2, abs=SAME)
    assert found.score == pytest.approx(2 * np.log(0.6), abs=score_rounding(2, SAME))


def test_scores_are_those_of_the_model_whatever_the_options_do_to_them(decoder, options) -> None:
    step = decoder(lambda sentence, tokens: np.log([0.1, 0.1, 0.2, 0.6]))
    [[found]] = search(step, [[0]], options(suppress_tokens=(3,)))
    assert found.tokens == [2]
    assert found.token_scores == pytest.approx([np.log(0.2)], abs=SAME)


def test_of_equal_tokens_the_first_is_taken(decoder, options) -> None:
    [[found]] = search(decoder(lambda sentence, tokens: np.zeros(9)), [[0]], options(suppress_tokens=(0, 1)))
    assert found.tokens == [2]


def test_a_sentence_that_has_ended_leaves_at_once(decoder, table, options) -> None:
    step = decoder(table())
    found = search(step, STARTS, options(max_new_tokens=30))
    calls = np.bincount(np.concatenate(step.calls))
    assert calls.tolist() == [len(hypothesis.tokens) for [hypothesis] in found]
    assert len(set(calls)) > 1


def test_a_prefix_is_seen_by_the_decoder_and_not_given_back(decoder, options) -> None:
    seen = []
    step = decoder(lambda sentence, tokens: seen.append(tokens) or np.eye(9)[len(tokens)])
    [[found]] = search(step, [[0, 5, 6]], options(max_new_tokens=2))
    assert seen == [(0, 5, 6), (0, 5, 6, 3)]
    assert found.tokens == [3, 4]


def test_tokens_come_one_by_one(decoder, table, options) -> None:
    whole = search(decoder(table()), STARTS, options())
    step = decoder(table())
    tokens: list[list[int]] = [[] for _ in STARTS]
    for number, made in enumerate(
        greedy_steps(step, prefix_block(STARTS, options()), options(), BatchContext()), start=1
    ):
        assert len(step.calls) == number  # nothing is computed ahead
        for output, token in zip(made.outputs, made.tokens, strict=True):
            tokens[output].append(int(token))
    assert tokens == [hypothesis.tokens for [hypothesis] in whole]


def test_several_end_tokens_are_all_ends(decoder, options) -> None:
    step = decoder(lambda sentence, tokens: np.eye(9)[2 + sentence])
    [[first], [second], [third]] = search(step, [[0]] * 3, options(eos_token_id=(2, 3), max_new_tokens=2))
    assert [first.tokens, second.tokens, third.tokens] == [[2], [3], [4, 4]]
    assert [first.ended, second.ended, third.ended] == [True, True, False]


def test_a_hook_has_the_last_word(decoder, table, options) -> None:
    def three_fives_and_the_end(sentences: np.ndarray, tokens: np.ndarray, scores: np.ndarray) -> np.ndarray:
        changed = np.full_like(scores, -np.inf)
        changed[:, 5 if tokens.shape[1] < 4 else 2] = 0
        return changed

    found = search(decoder(table()), STARTS, options(suppress_tokens=(5,)), BatchContext(hook=three_fives_and_the_end))
    assert [hypothesis.tokens for [hypothesis] in found] == [[5, 5, 5, 2]] * len(STARTS)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_a_hook_knows_which_sentence_each_row_is(decoder, table, options, num_beams: int) -> None:
    def its_own_number(sentences: np.ndarray, tokens: np.ndarray, scores: np.ndarray) -> np.ndarray:
        wanted = np.where(tokens.shape[1] <= sentences, sentences, 2)  # a sentence's number, so many times
        return np.where(np.arange(scores.shape[1]) == wanted[:, None], scores, -np.inf)

    numbers = [4, 3, 5]
    found = search(
        decoder(table()),
        STARTS[:3],
        options(num_beams=num_beams),
        BatchContext(sentence_ids=numbers, hook=its_own_number),
    )
    assert [best.tokens for best, *_ in found] == [[number] * number + [2] for number in numbers]


@pytest.mark.parametrize(
    ("hook", "sentence"),
    [
        (
            lambda sentences, tokens, scores: scores[0],
            r"the hook returned scores of the shape \(8,\), but must return \(1, 8\)",
        ),
        (lambda sentences, tokens, scores: scores * np.nan, r"the hook returned scores that are not numbers \(NaN\)"),
        (lambda sentences, tokens, scores: scores + np.inf, "use a large number instead of inf"),
        (lambda sentences, tokens, scores: scores - np.inf, "forbid every token"),
    ],
)
def test_a_hook_that_gives_back_something_else_is_an_error(decoder, table, options, hook, sentence: str) -> None:
    for kind in (ValueError, UsageError):
        with pytest.raises(kind, match=sentence):
            search(decoder(table()), [[0]], options(), BatchContext(hook=hook))


def test_the_scores_of_the_step_are_left_as_they_are(options) -> None:
    class Constant(DecoderState):
        def step(self, tokens, rows) -> StepOutput:
            return StepOutput(logits)

    logits = np.arange(6, dtype=np.float32).reshape(1, 1, 6)
    logits.flags.writeable = False
    everything = options(
        repetition_penalty=2.0, no_repeat_ngram_size=1, bad_words_ids=((5,),), suppress_tokens=(4,), min_new_tokens=1
    )
    [[found]] = search(Constant(), [[0]], everything)
    assert found.tokens == [3, 2]


def test_nothing_to_search_needs_no_step(options) -> None:
    assert search(None, [], options()) == []


def test_prefixes_of_different_lengths_are_refused(options) -> None:
    with pytest.raises(ValueError, match=r"the prefixes have the lengths \[1, 2\], but must have one"):
        search(None, [[0], [0, 1]], options())


def test_an_empty_prefix_is_refused(options) -> None:
    with pytest.raises(ValueError, match="at least the start token"):
        search(None, [[]], options())


def test_a_prefix_that_leaves_no_room_is_refused(options) -> None:
    with pytest.raises(UsageError, match="the prefixes have 3 tokens, but max_length is 3"):
        search(None, [[0, 5, 6]], options(max_new_tokens=None, max_length=3))


def test_a_decoder_that_gives_no_numbers_is_an_error(decoder, options) -> None:
    for beams in (1, 2):
        with pytest.raises(FloatingPointError, match="not numbers"):
            search(decoder(lambda sentence, tokens: np.full(9, np.nan)), [[0]], options(num_beams=beams))


def test_only_sentences_whose_likeliest_token_is_forbidden_choose_another(decoder, options) -> None:
    logits = [[0, 1, 5, 3, 3, 2], [0, 1, 3, 5, 4, 5], [0, 1, 2, 2, 4, 5]]
    found = search(decoder(lambda sentence, tokens: logits[sentence]), [[0]] * 3, options(min_new_tokens=8))
    assert [one.tokens for [one] in found] == [[3] * 8, [3] * 8, [5] * 8]
    expected = [logit - np.log(np.exp(row).sum()) for logit, row in zip([3, 5, 5], logits, strict=True)]
    assert [one.token_scores[0] for [one] in found] == pytest.approx(expected, abs=SAME)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("forbidding", [{}, {"min_new_tokens": 8}, {"repetition_penalty": 2.0}])
@pytest.mark.parametrize(("wrong", "what"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_scores_that_are_no_numbers_are_refused(decoder, options, beams, forbidding, wrong, what) -> None:
    step = decoder(lambda sentence, tokens: [0, 1, 2, wrong if sentence == 1 and len(tokens) == 3 else 3, 4, 5])
    with pytest.raises(NotANumberError, match=what):
        search(step, [[0]] * 3, options(num_beams=beams, **forbidding))
