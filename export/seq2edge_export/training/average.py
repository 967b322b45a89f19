"""The average of the last measured weights, which translates better than any of them; needs torch, safetensors."""

from pathlib import Path

import torch
from safetensors.torch import load_file

from seq2edge_export.checkpoint import save_weights, weights_of
from seq2edge_export.model import Transformer


def keep_weights(folder: Path, model: Transformer, *, step: int, most: int) -> list[Path]:
    """Save the weights of this step, drop the oldest, and give the files that remain."""
    save_weights(folder / f"weights-{step:08d}.safetensors", weights_of(model))
    files = kept_weights(folder)
    for path in files[:-most]:
        path.unlink()
    return files[-most:]


def forget_weights_after(folder: Path, step: int) -> None:
    """Remove what a run saved between its last state and its end, and will come to again."""
    for path in kept_weights(folder):
        if int(path.stem.removeprefix("weights-")) > step:
            path.unlink()


def kept_weights(folder: Path) -> list[Path]:
    """The files with weights, oldest first."""
    return sorted(folder.glob("weights-*.safetensors"))


def load_average(files: list[Path], model: Transformer, *, dtype: torch.dtype = torch.float32) -> None:
    """Fill ``model`` with the mean of some saved weights, summed in double precision and rounded to ``dtype``."""
    sums = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in weights_of(model).items()}
    for path in files:
        for name, tensor in load_file(path).items():
            sums[name] += tensor.to(sums[name].device, torch.float64)
    with torch.no_grad():
        for name, parameter in weights_of(model).items():
            parameter.copy_((sums[name] / len(files)).to(dtype))
