from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file

from seq2edge_export.checkpoint import weights_of
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.training.checkpointing import (
    delete_weights_after,
    load_average,
    save_recent_weights,
    saved_weights,
)
from seq2edge_export.training.config import Job


def test_the_average_is_the_mean_of_the_files(tmp_path: Path, make_job: Callable[..., Job]) -> None:
    shape = make_job(tmp_path).architecture
    for step in (1, 2, 3):
        files = save_recent_weights(tmp_path, Transformer(shape, seed=step), step=step, limit=3)
    averaged = Transformer(shape, seed=9)
    load_average(files, averaged)
    contents = [load_file(path) for path in files]
    for name, tensor in weights_of(averaged).items():
        mean = torch.stack([content[name].double() for content in contents]).mean(0).float()
        torch.testing.assert_close(tensor.detach(), mean, rtol=0, atol=0)


def test_the_average_of_one_file_is_that_file(tmp_path: Path, make_job: Callable[..., Job]) -> None:
    model, other = (Transformer(make_job(tmp_path).architecture, seed=seed) for seed in (1, 2))
    load_average(save_recent_weights(tmp_path, model, step=1, limit=1), other)
    torch.testing.assert_close(other.state_dict(), model.state_dict(), rtol=0, atol=0)


def test_only_the_last_files_are_kept(tmp_path: Path, make_job: Callable[..., Job]) -> None:
    model = Transformer(make_job(tmp_path).architecture)
    for step in (8, 9, 10, 11):
        files = save_recent_weights(tmp_path, model, step=step, limit=2)
    assert [path.name for path in files] == ["weights-00000010.safetensors", "weights-00000011.safetensors"]
    assert saved_weights(tmp_path) == files


def test_weights_from_after_a_state_are_forgotten(tmp_path: Path, make_job: Callable[..., Job]) -> None:
    model = Transformer(make_job(tmp_path).architecture)
    for step in (4, 8):
        save_recent_weights(tmp_path, model, step=step, limit=2)
    delete_weights_after(tmp_path, 7)
    assert [path.name for path in saved_weights(tmp_path)] == ["weights-00000004.safetensors"]
