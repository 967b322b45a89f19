"""What a page shows is what the translator did: tokens, scores, weights, masks and the cache."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tolerances import FLOAT32, int8_rounding, log_probability_rounding, network_rounding, sum_rounding

from seq2edge import Translator
from seq2edge.bundle.bundle import DEFAULT_BUNDLE
from seq2edge.errors import DataError, UsageError
from seq2edge.explain.comparison import compare
from seq2edge.explain.explanation import TEMPERATURES, Explanation, explain
from seq2edge.explain.graph_values import expose, read_values
from seq2edge.scoring.scorer import open_scorer

VECTORS = Path(__file__).parents[2] / "vectors"
BUNDLES = {name: VECTORS / name for name in ("append", "inplace", "int8", "recurrent")} | {"default": DEFAULT_BUNDLE}
TEXT = "The old man sees a red house."


@pytest.fixture(scope="module", params=BUNDLES)
def translator(request: pytest.FixtureRequest) -> Translator:
    return Translator(BUNDLES[request.param], threads=1)


@pytest.fixture(scope="module")
def explained(translator: Translator) -> Explanation:
    return explain(translator, TEXT, split="none")


def logit_rounding(one: Explanation) -> float:
    """Bound the difference of two runs with other numbers of rows or of new tokens."""
    shape, size = one.manifest.architecture, float(np.abs(one.replay.logits).max())
    assert shape is not None
    rounding = network_rounding(shape, size)
    return rounding + int8_rounding(shape.width, size) if one.manifest.precision == "int8" else rounding


def test_the_translation_is_that_of_the_translator(translator: Translator, explained: Explanation) -> None:
    [expected] = translator.translate([TEXT], split="none")
    assert explained.translation == expected


def test_the_tree_ends_in_the_translation_with_its_scores(translator: Translator, explained: Explanation) -> None:
    [expected] = translator.translate([TEXT], split="none", num_return_sequences=4)
    assert explained.tree is not None
    found = [(tuple(one.tokens), one.score, tuple(one.token_scores)) for one in explained.tree.hypotheses]
    ranked = [(one.tokens, one.score, one.token_scores) for one in (expected, *expected.alternatives)]
    assert found[: len(ranked)] == ranked


def test_every_step_of_the_tree_has_one_node_of_the_translation(explained: Explanation) -> None:
    assert explained.tree is not None
    path = [[node for node in nodes if node.best] for nodes in explained.tree.steps]
    tokens = explained.translation.tokens
    assert [node.token for nodes in path for node in nodes] == list(tokens)
    scores = [nodes[0].token_score for nodes in path[: len(tokens)]]
    assert scores == list(explained.translation.token_scores)


def test_the_beams_of_the_tree_continue_the_kept_nodes(explained: Explanation) -> None:
    assert explained.tree is not None
    beams, steps = explained.options.num_beams, explained.tree.steps
    for before, after in pairwise(steps):
        kept = {node.beam for node in before if node.fate == "kept"}
        assert kept == set(range(len(kept)))
        assert len(kept) <= beams
        assert {node.parent for node in after} <= kept
    assert {node.fate for node in steps[-1]}.isdisjoint({"kept"})


def test_the_probabilities_of_the_steps_are_those_of_the_scorer(translator: Translator, explained: Explanation) -> None:
    scorer, tokens = open_scorer(translator.bundle, translator.engine), explained.translation.tokens
    assert scorer is not None
    [expected] = scorer.log_probabilities([explained.source], [tokens], start=explained.inputs[0])
    found = [step.log_probability for step in explained.steps]
    rounding = log_probability_rounding(logit_rounding(explained))
    np.testing.assert_allclose(found, expected, rtol=0, atol=rounding)


def test_the_probabilities_of_the_steps_are_those_of_score() -> None:
    translator = Translator(threads=1)
    one = explain(translator, TEXT)
    [scored] = translator.score([TEXT], [one.translation.text])
    assert scored.tokens == one.translation.tokens
    rounding = log_probability_rounding(logit_rounding(one))
    found = [step.log_probability for step in one.steps]
    np.testing.assert_allclose(found, scored.token_scores, rtol=0, atol=rounding)


def test_the_replayed_logits_are_those_of_the_engine_to_the_last_bit(
    translator: Translator, explained: Explanation
) -> None:
    state = translator.engine.start([list(explained.source)])
    for token, logits in zip(explained.inputs, explained.replay.logits, strict=True):
        output = state.step(np.array([[[token]]]), np.array([[0]]))
        np.testing.assert_array_equal(output.logits.reshape(-1), logits)


def test_the_probabilities_sum_to_one_at_every_temperature(explained: Explanation) -> None:
    for step, logits in zip(explained.steps, explained.replay.logits.astype(np.float64), strict=True):
        for temperature, log_total in zip(TEMPERATURES, step.log_totals, strict=True):
            total = np.exp(logits / temperature - log_total).sum()
            np.testing.assert_allclose(total, 1, rtol=0, atol=sum_rounding(len(logits), 1.0, np.finfo(float).eps) * 8)
        at_one = step.log_totals[TEMPERATURES.index(1.0)]
        chosen = step.logits[step.tokens.index(step.chosen)] - at_one
        np.testing.assert_allclose(chosen, step.log_probability, rtol=0, atol=logit_rounding(explained))


def test_rows_of_attention_sum_to_one_and_masked_weights_are_zero(explained: Explanation) -> None:
    for maps in explained.replay.attention:
        columns = maps.weights.shape[3]
        np.testing.assert_allclose(maps.weights.sum(axis=3), 1, rtol=0, atol=sum_rounding(columns, 1.0))
        hidden = np.isneginf(maps.scores)
        assert not maps.weights[hidden].any()
        assert np.isfinite(maps.scores[~hidden]).all()


def test_weights_are_the_softmax_of_the_scores(explained: Explanation) -> None:
    for maps in explained.replay.attention:
        shifted = np.exp(maps.scores.astype(np.float64) - maps.scores.max(axis=3, keepdims=True))
        expected, size = shifted / shifted.sum(axis=3, keepdims=True), np.abs(maps.scores[maps.scores > -np.inf]).max()
        rounding = sum_rounding(maps.scores.shape[3] + 2, 1.0) + 2 * size * FLOAT32
        np.testing.assert_allclose(maps.weights, expected, rtol=0, atol=rounding)


def test_masks_hide_padding_and_the_future_and_nothing_else(explained: Explanation) -> None:
    length, padded = len(explained.source), explained.replay.padded_length
    for maps in explained.replay.attention:
        rows, columns = maps.scores.shape[2:]
        hidden = np.isneginf(maps.scores)
        if maps.kind == "decoder":
            assert (hidden == ~np.tri(rows, columns, dtype=bool)).all()
        else:
            assert columns == padded
            assert (hidden == (np.arange(columns) >= length)).all()


def test_a_bundle_has_the_attention_of_all_its_layers(explained: Explanation) -> None:
    shape = explained.manifest.architecture
    assert shape is not None
    layers = {maps.kind: maps.weights.shape[:2] for maps in explained.replay.attention}
    expected = {"encoder": (shape.encoder_layers, shape.heads), "cross": (shape.decoder_layers, shape.heads)}
    if shape.decoder_cell == "attention":
        expected["decoder"] = (shape.decoder_layers, shape.heads)
    assert layers == expected
    assert bool(explained.replay.missing) == (shape.decoder_cell == "ssru")


def test_the_cache_grows_by_the_keys_and_values_of_one_token(explained: Explanation) -> None:
    shape, cache = explained.manifest.architecture, explained.replay.cache
    assert shape is not None
    assert cache.cross_bytes == 2 * shape.decoder_layers * explained.replay.padded_length * shape.inner_width * 4
    if shape.decoder_cell == "attention":
        token = 2 * shape.decoder_layers * shape.inner_width * 4
        assert cache.bytes == tuple(token * (step + 1) for step in range(len(explained.steps)))
    else:
        assert set(cache.bytes) == {shape.decoder_layers * shape.width * 4 + 8}  # and the count
    assert all(len(norms) == len(explained.steps) for norms in cache.norms.values())


def test_positions_are_the_sines_and_cosines_of_the_paper(explained: Explanation) -> None:
    positions = explained.replay.positions
    assert positions is not None
    rows, width = positions.shape
    angles = np.arange(rows)[:, None] * 10_000.0 ** -(np.arange(0, width, 2) / width)
    expected = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(rows, width)
    np.testing.assert_allclose(positions, expected, rtol=0, atol=sum_rounding(2, float(rows)))


def test_every_decoder_call_is_timed(explained: Explanation) -> None:
    assert explained.tree is not None
    assert len(explained.times.decoder) == len(explained.tree.steps)


def test_greedy_search_has_steps_but_no_tree(translator: Translator) -> None:
    one = explain(translator, TEXT, split="none", num_beams=1)
    assert one.tree is None
    assert one.translation == translator.translate([TEXT], split="none", num_beams=1)[0]
    assert [step.tokens[0] for step in one.steps] == list(one.translation.tokens)


def test_sampling_draws_the_same_tokens_in_the_tree() -> None:
    one = explain(Translator(VECTORS / "append", threads=1), TEXT, split="none", do_sample=True, num_beams=2)
    assert one.tree is not None
    assert tuple(one.tree.hypotheses[0].tokens) == one.translation.tokens
    assert any("seed 0" in note for note in one.notes)


def test_exposing_values_leaves_the_rest_of_the_graph_alone() -> None:
    raw = (VECTORS / "append" / "decoder.onnx").read_bytes()
    values = read_values(raw)
    exposed = read_values(expose(raw, values.hidden))  # only the appended graph message
    assert expose(raw, values.hidden).startswith(raw)
    assert exposed.outputs == tuple(values.hidden)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("  ", "the text has no visible characters; give a sentence to explain"),
        ("One. Two.", "the text has 2 sentences, but a page explains one: give one of them, or --split none"),
    ],
)
def test_only_one_sentence_is_explained(text: str, error: str) -> None:
    with pytest.raises(DataError, match=error):
        explain(Translator(threads=1), text)


def test_several_translations_are_refused() -> None:
    with pytest.raises(UsageError, match="num_return_sequences is more than 1"):
        explain(Translator(threads=1), TEXT, num_return_sequences=2)


def test_equal_models_do_not_part(explained: Explanation) -> None:
    difference = compare(explained, explained)
    assert (difference.parted, difference.same_translation, difference.reasons) == (None, True, ())
    assert difference.common_steps == len(explained.steps)
    assert not any(heads.any() for heads in difference.heads.values())


def test_models_part_where_they_first_choose_another_token() -> None:
    first, second = (explain(Translator(VECTORS / name, threads=1), TEXT, split="none") for name in ("append", "int8"))
    difference = compare(first, second)
    steps = zip(first.translation.tokens, second.translation.tokens, strict=False)
    expected = next((step for step, (one, other) in enumerate(steps) if one != other), None)
    assert difference.parted == expected
    assert difference.heads.keys() == {"encoder", "decoder", "cross"}
    assert all(0 < heads.max() < 1 for heads in difference.heads.values())


def test_steps_after_the_models_part_are_not_compared(explained: Explanation) -> None:
    tokens = explained.translation.tokens
    other = replace(explained.translation, tokens=(*tokens[:1], tokens[0] + 1), text="other")
    second = replace(explained, inputs=(explained.inputs[0], tokens[0]), translation=other)
    difference = compare(explained, second)
    assert (difference.parted, difference.common_steps) == (1 if tokens[1] != tokens[0] + 1 else None, 2)


def test_models_with_other_tokens_are_compared_by_their_text() -> None:
    first, second = explain(Translator(threads=1), TEXT), explain(Translator(VECTORS / "append", threads=1), TEXT)
    difference = compare(first, second)
    assert difference.reasons == ("The models have other tokens, so only the translations can be compared.",)
    assert (difference.common_steps, difference.heads) == (0, {})
