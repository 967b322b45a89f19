"""A translation is the same to the last bit in any batch."""

from random import Random

import pytest

from seq2edge import Translator
from seq2edge.engine.encoder import BLOCK, Padding

SENTENCE = "the old man sees a small dog and our teacher paints two green houses in London on 24 May, doesn't she?"


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Sentences with every length up to 60 words, so that every number of tokens modulo the block size occurs."""
    chance = Random(3)
    return [" ".join(chance.choices(SENTENCE.split(), k=length)) for length in [*range(1, 30), 45, 60]]


@pytest.mark.parametrize("num_beams", [1, 4])
def test_tokens_and_scores_do_not_depend_on_the_batch(num_beams: int, texts: list[str]) -> None:
    def translate(translator: Translator, some: list[str]) -> list[tuple[tuple[int, ...], float]]:
        results = translator.translate(some, num_beams=num_beams, max_new_tokens=12)
        return [(result.tokens, result.score) for result in results]

    with Translator(threads=1) as one, Translator(threads=1, workers=2) as two:
        alone = [result for text in texts for result in translate(one, [text])]
        assert translate(one, texts) == alone
        assert translate(two, texts) == alone
        assert translate(one, texts[::-1])[::-1] == alone
        for size in (2, 3, 7):
            assert [
                result for start in range(0, len(texts), size) for result in translate(one, texts[start:][:size])
            ] == alone


@pytest.mark.parametrize(("longest", "length"), [(1, BLOCK), (BLOCK, BLOCK), (BLOCK + 1, 2 * BLOCK), (9, 10), (10, 10)])
def test_sources_are_padded_to_whole_blocks_within_the_positions_of_the_model(longest: int, length: int) -> None:
    assert Padding(0, max_length=10).length(longest) == length
