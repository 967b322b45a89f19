import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from seq2edge_export.training.checkpointing import TrainingProgress
from seq2edge_export.training.config import TrainingSettings
from seq2edge_export.training.data import draw_rows, make_batch, plan_epoch
from seq2edge_export.training.loop import Epochs

LENGTHS = st.integers(1, 200).flatmap(lambda rows: arrays(np.int64, (rows, 2), elements=st.integers(1, 50)))
SEEDS = st.integers(0, 2**32 - 1)


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 400), SEEDS, st.integers(0, 50))
def test_every_sentence_is_in_an_epoch_exactly_once(
    lengths: np.ndarray, batch_tokens: int, seed: int, epoch: int
) -> None:
    plan = plan_epoch(lengths, batch_tokens=batch_tokens, seed=seed, epoch=epoch)
    assert sorted(np.concatenate(plan)) == list(range(len(lengths)))


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 400), SEEDS)
def test_a_padded_batch_stays_within_its_tokens_unless_it_is_one_sentence(
    lengths: np.ndarray, batch_tokens: int, seed: int
) -> None:
    for rows in plan_epoch(lengths, batch_tokens=batch_tokens, seed=seed, epoch=0):
        assert len(rows) == 1 or len(rows) * lengths[rows].max() <= batch_tokens


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 400), SEEDS, st.integers(0, 50))
def test_a_plan_depends_only_on_seed_and_epoch(lengths: np.ndarray, batch_tokens: int, seed: int, epoch: int) -> None:
    first, second = (plan_epoch(lengths, batch_tokens=batch_tokens, seed=seed, epoch=epoch) for _ in range(2))
    assert [rows.tolist() for rows in first] == [rows.tolist() for rows in second]


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 400), SEEDS)
def test_every_epoch_has_the_same_number_of_batches(lengths: np.ndarray, batch_tokens: int, seed: int) -> None:
    counts = {len(plan_epoch(lengths, batch_tokens=batch_tokens, seed=seed, epoch=epoch)) for epoch in range(4)}
    assert len(counts) == 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.floats(0.1, 4)), min_size=1, max_size=4), SEEDS, st.integers(0, 50))
def test_the_weight_of_a_file_is_how_often_its_pairs_are_in_an_epoch(
    files: list[tuple[int, float]], seed: int, epoch: int
) -> None:
    rows = draw_rows(files, seed=seed, epoch=epoch)
    counts = np.bincount(rows, minlength=sum(size for size, _ in files))
    for (size, weight), found in zip(files, np.split(counts, np.cumsum([size for size, _ in files])[:-1]), strict=True):
        assert found.min() >= int(weight)
        assert found.max() <= int(weight) + 1
        assert found.sum() == int(weight) * size + round(weight % 1 * size)


def test_files_without_weights_are_all_rows_in_order() -> None:
    assert draw_rows([(3, 1.0), (2, 1.0)], seed=1, epoch=7).tolist() == [0, 1, 2, 3, 4]


def test_a_fractional_weight_draws_other_pairs_in_every_epoch() -> None:
    first, second = (draw_rows([(100, 0.5)], seed=1, epoch=epoch).tolist() for epoch in range(2))
    assert len(first) == len(second) == 50
    assert first != second


def test_little_of_a_batch_is_padding() -> None:
    lengths = np.random.default_rng(0).integers(5, 60, (5000, 1)).repeat(2, axis=1)
    plan = plan_epoch(lengths, batch_tokens=2048, seed=0, epoch=0)
    padded = sum(len(rows) * lengths[rows].max() for rows in plan)
    assert lengths[:, 0].sum() / padded > 0.95


def test_epochs_differ() -> None:
    lengths = np.full((100, 2), 7)
    plans = [plan_epoch(lengths, batch_tokens=70, seed=0, epoch=epoch) for epoch in range(2)]
    assert [rows.tolist() for rows in plans[0]] != [rows.tolist() for rows in plans[1]]


@settings(deadline=None)
@given(st.integers(1, 7), st.integers(0, 40))
def test_an_interrupted_sequence_of_batches_continues_unchanged(accumulate: int, done: int) -> None:
    encoded = [([number] * (number % 5 + 1), [number, 3]) for number in range(4, 40)]
    files = [(10, 2.5), (26, 1.0)]
    options = TrainingSettings(batch_tokens=20, accumulate=accumulate)
    whole, progress = Epochs(encoded, files, options), TrainingProgress()
    expected = [whole.advance(progress) for _ in range(done + 20)]

    before, at = Epochs(encoded, files, options), TrainingProgress()
    for _ in range(done):
        before.advance(at)
    after = Epochs(encoded, files, options)
    assert [after.advance(at) for _ in range(20)] == expected[done:]
    assert after.done(at) == whole.done(progress)
    assert at.step == done + 20


def test_a_batch_is_padded_and_its_target_shifted_by_one() -> None:
    batch = make_batch([([5, 6, 3], [7, 3]), ([8, 3], [9, 10, 3])], pad=0, start=2)
    assert batch.source.tolist() == [[5, 6, 3], [8, 3, 0]]
    assert batch.source_mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.target_input.tolist() == [[2, 7, 3], [2, 9, 10]]
    assert batch.target_output.tolist() == [[7, 3, 0], [9, 10, 3]]


def test_padding_in_the_text_counts_as_text_in_the_mask() -> None:
    batch = make_batch([([0, 3], [4, 3]), ([5, 6, 3], [4, 3])], pad=0, start=2)
    assert torch.equal(batch.source_mask, torch.tensor([[True, True, False], [True, True, True]]))
