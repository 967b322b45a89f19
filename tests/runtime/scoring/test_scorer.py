"""Scoring with the default model: in one pass and step by step, with no PyTorch."""

import numpy as np
import pytest
from tolerances import int8_rounding, log_probability_rounding, score_rounding, sum_rounding

from seq2edge import Translator
from seq2edge.scoring.scorer import Scorer, forced_log_probabilities, open_scorer

TEXTS = ["Good morning.", "Where is the old bridge that you told me about?"]
# The default model is in int8, where a last digit of a float that differs between one pass and many steps tips an
# integer now and then (docs/quantization.md). In float32 both are closer: tests/export/test_scorer.py.
ROUNDING = log_probability_rounding(int8_rounding(width=256, size=10))


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(threads=1)


@pytest.fixture(scope="module")
def scorer(translator: Translator) -> Scorer:
    found = open_scorer(translator.bundle, translator.engine)
    assert found is not None
    return found


def test_the_score_of_a_translation_is_the_sum_of_its_log_probabilities(translator: Translator, scorer: Scorer) -> None:
    results = translator.translate(TEXTS, num_beams=1)
    sources, targets = translator.tokenizer.encode(TEXTS), [result.tokens for result in results]
    start = translator.manifest.generation.decoder_start_token_id
    scored = scorer.score(sources, targets, start=start)
    stepped = forced_log_probabilities(translator.engine, sources, targets, start=start)
    for result, source, one_pass, steps in zip(results, sources, scored, stepped, strict=True):
        limit = score_rounding(len(result.tokens), ROUNDING)
        assert one_pass.log_probabilities.sum() == pytest.approx(result.score, abs=limit)
        np.testing.assert_allclose(steps, one_pass.log_probabilities, atol=ROUNDING)
        assert one_pass.attention.shape[2:] == (len(result.tokens), len(source))
        np.testing.assert_allclose(one_pass.attention.sum(axis=3), 1, atol=sum_rounding(2 * len(source), 1.0))
    for alone, together in zip(scorer.log_probabilities(sources, targets, start=start), scored, strict=True):
        np.testing.assert_array_equal(alone, together.log_probabilities)


def test_a_wrong_translation_is_less_likely(translator: Translator, scorer: Scorer) -> None:
    sources = translator.tokenizer.encode(TEXTS)
    right, other = (result.tokens for result in translator.translate(TEXTS))
    start = translator.manifest.generation.decoder_start_token_id
    likely, unlikely = scorer.score([sources[0]] * 2, [right, other], start=start)
    assert likely.log_probabilities.mean() > unlikely.log_probabilities.mean() + 1
