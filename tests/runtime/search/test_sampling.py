import numpy as np
import pytest

from seq2edge.errors import NotANumberError
from seq2edge.search import BatchContext, search
from seq2edge.search.logits_processors import keep_top_k, keep_top_p, temperature
from seq2edge.search.sampling import GumbelNoise
from seq2edge.search.top_k import top_k

PROBABILITIES = np.array([0.05, 0.1, 0.15, 0.3, 0.4])
CRITICAL = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 11: 31.26}  # of chi-square at p = 0.001, by degrees of freedom
STARTS = [[0]] * 4


def assert_drawn_from(expected: np.ndarray, counts: np.ndarray) -> None:
    """Chi-square test of counts; the seeds are fixed, so it passes always or never."""
    assert not counts[expected == 0].any()
    possible = expected > 0
    wanted = expected[possible] / expected.sum() * counts.sum()
    statistic = ((counts[possible] - wanted) ** 2 / wanted).sum()
    assert statistic < CRITICAL[possible.sum() - 1]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, PROBABILITIES),
        ({"temperature": 0.5}, PROBABILITIES**2),
        ({"top_k": 2}, PROBABILITIES * (PROBABILITIES >= 0.3)),
        ({"top_p": 0.8}, PROBABILITIES * (PROBABILITIES >= 0.15)),
        ({"top_p": 0.0}, PROBABILITIES * (PROBABILITIES >= 0.4)),
        ({"suppress_tokens": (3,)}, PROBABILITIES * (PROBABILITIES != 0.3)),
    ],
)
def test_tokens_are_drawn_by_their_probability(decoder, options, given: dict[str, object], expected) -> None:
    step = decoder(lambda sentence, tokens: np.log(PROBABILITIES))
    drawing = options(do_sample=True, max_new_tokens=1, num_return_sequences=4000, seed=3, **given)
    [found] = search(step, [[0]], drawing)
    counts = np.bincount([hypothesis.tokens[0] for hypothesis in found], minlength=5)
    if (expected > 0).sum() == 1:
        assert counts[expected > 0] == 4000
    else:
        assert_drawn_from(expected, counts)


def test_later_tokens_are_drawn_by_their_probability_too(decoder, options) -> None:
    step = decoder(lambda sentence, tokens: np.log(np.roll(PROBABILITIES, tokens[-1])))
    drawing = options(do_sample=True, max_new_tokens=2, num_return_sequences=4000, seed=2, eos_token_id=9)
    [found] = search(step, [[0]], drawing)
    seconds = [hypothesis.tokens[1] for hypothesis in found if hypothesis.tokens[0] == 3]
    assert_drawn_from(np.roll(PROBABILITIES, 3), np.bincount(seconds, minlength=5))


def test_noise_makes_the_highest_ones_draws_without_replacement() -> None:
    probabilities = PROBABILITIES[1:] / PROBABILITIES[1:].sum()
    scores = np.tile(np.log(probabilities).astype(np.float32), (6000, 1))
    pairs = top_k(GumbelNoise([np.random.default_rng(3)])(scores, np.array([0])), 2)[0]
    counts = np.zeros((4, 4))
    np.add.at(counts, tuple(pairs.T), 1)
    expected = probabilities[:, None] * probabilities / (1 - probabilities[:, None])
    np.fill_diagonal(expected, 0)
    assert_drawn_from(expected.flatten(), counts.flatten())


@pytest.mark.parametrize("num_beams", [1, 3])
def test_the_same_seed_draws_the_same(decoder, table, options, num_beams: int) -> None:
    def drawn(seed: int | None) -> object:
        drawing = options(do_sample=True, num_beams=num_beams, num_return_sequences=3, seed=seed)
        return search(decoder(table(30)), STARTS, drawing)

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(None) != drawn(None)


def test_sentences_and_their_samples_are_drawn_apart(decoder, options) -> None:
    step = decoder(lambda sentence, tokens: np.zeros(50))
    found = search(step, STARTS, options(do_sample=True, num_return_sequences=3, seed=4))
    assert len({tuple(hypothesis.tokens) for of_sentence in found for hypothesis in of_sentence}) == 12


def test_the_number_of_a_sentence_decides_what_it_draws(decoder, options) -> None:
    def drawn(numbers: list[int]) -> list[list[int]]:
        step = decoder(lambda sentence, tokens: np.zeros(50))
        found = search(step, [[0]] * len(numbers), options(do_sample=True, seed=5), BatchContext(sentence_ids=numbers))
        return [hypothesis.tokens for [hypothesis] in found]

    first, second, third = drawn([0, 1, 2])
    assert drawn([2, 0]) == [third, first]
    assert drawn([1]) == [second]


@pytest.mark.parametrize("num_beams", [1, 2])
def test_parts_of_one_text_are_drawn_apart(decoder, options, num_beams: int) -> None:
    step = decoder(lambda sentence, tokens: np.zeros(50))
    drawing = options(do_sample=True, seed=5, num_beams=num_beams)
    [first], [second] = search(step, [[0]] * 2, drawing, BatchContext(sentence_ids=[3, 3], segment_ids=[0, 1]))
    assert first.tokens != second.tokens


def test_samples_of_a_sentence_come_likeliest_first(decoder, table, options) -> None:
    for found in search(decoder(table()), STARTS, options(do_sample=True, num_return_sequences=5, seed=6)):
        scores = [hypothesis.score for hypothesis in found]
        assert scores == sorted(scores, reverse=True)


def test_a_sample_that_has_ended_stays_as_it_is(decoder, table, options) -> None:
    found = search(decoder(table(end_bonus=1)), STARTS, options(do_sample=True, num_return_sequences=5, seed=6))
    lengths = {len(hypothesis.tokens) for hypothesis in found[0]}
    assert len(lengths) > 1
    assert all(2 not in hypothesis.tokens[:-1] for of_sentence in found for hypothesis in of_sentence)


def test_drawing_where_all_is_forbidden_is_an_error(decoder, table, options) -> None:
    with pytest.raises(ValueError, match="the options or the hook forbid every token"):
        search(decoder(table(4)), [[0]], options(do_sample=True, suppress_tokens=(0, 1, 2, 3)))


def test_filters_keep_equals_of_the_last_token_that_they_keep() -> None:
    scores = np.array([[1, 2, 2, 3]], dtype=np.float32)
    assert keep_top_k(2)(scores[:, :0], scores.copy()).tolist() == [[-np.inf, 2, 2, 3]]


def test_a_small_share_keeps_at_least_as_many_as_asked() -> None:
    scores = np.log(PROBABILITIES[None]).astype(np.float32)
    kept = np.isfinite(keep_top_p(0.1, 2)(np.zeros((1, 1), dtype=np.int64), scores))
    assert kept.tolist() == [[False, False, False, True, True]]


def test_a_temperature_divides_the_scores() -> None:
    scores = np.array([[1, 2]], dtype=np.float32)
    assert temperature(0.5)(scores[:, :0], scores).tolist() == [[2, 4]]


def test_logits_that_are_not_numbers_are_an_error(decoder, options) -> None:
    with pytest.raises(NotANumberError):
        search(decoder(lambda sentence, tokens: np.full(8, np.nan)), [[0]], options(do_sample=True, seed=1))
