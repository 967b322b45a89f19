"""Read a state dict without running code from its file; needs torch and safetensors."""

import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from seq2edge.errors import CheckpointError

StateDict = dict[str, Tensor]
Tensors = Mapping[str, Tensor]  # a state dict, or one that stays in its files
NESTED = ("state_dict", "model_state_dict", "model")  # where training scripts keep it beside other things
COMPILED, PARALLEL = "_orig_mod.", "module."  # what torch.compile and DataParallel put into the names
CONVERT = "torch.save(model.state_dict(), 'weights.pt')"


def read_state_dict(path: Path) -> StateDict:
    """The tensors of a ``.safetensors`` file or of one that ``torch.save`` wrote, by their names in the model."""
    if not path.is_file():
        raise CheckpointError(f"{path} is not a file; a state dict is what  {CONVERT}  writes")
    content = _load_safetensors(path) if path.suffix == ".safetensors" else _load_tensors(path)
    return _plain_names(_unwrapped(content, path))


def is_mapped(path: Path) -> bool:
    """Whether a file's tensors are mapped from it rather than copied; what torch.save wrote before 1.6 cannot be."""
    return path.suffix == ".safetensors" or zipfile.is_zipfile(path)


def _load_safetensors(path: Path) -> StateDict:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read as safetensors ({error})") from None


def _load_tensors(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says more about TorchScript than the error does
            return torch.load(path, map_location="cpu", weights_only=True, mmap=is_mapped(path))
    except Exception:  # a broken file makes torch.load raise whatever its reader meets
        raise CheckpointError(
            f"{path} is broken or holds more than tensors, and code from a file is never run: "
            f"where the model can be loaded, write its tensors alone with  {CONVERT}  and use that file"
        ) from None


def _unwrapped(content: Any, path: Path) -> StateDict:
    """The state dict itself, or the one under a usual key of a larger checkpoint."""
    candidates = [content, *(content.get(key) for key in NESTED)] if isinstance(content, dict) else []
    for candidate in candidates:
        entries = candidate.items() if isinstance(candidate, dict) else ()
        tensors = {key: value for key, value in entries if isinstance(key, str) and _is_plain(value)}
        if tensors:
            return tensors
    raise CheckpointError(
        f"{path} holds no tensors by name, neither at its top nor under {', '.join(NESTED)}; write  {CONVERT}"
    )


def _is_plain(value: Any) -> bool:
    """Whether it is a tensor with numbers in it: neither sparse nor without content."""
    return isinstance(value, Tensor) and value.layout == torch.strided and not value.is_meta


def _plain_names(state: StateDict) -> StateDict:
    state = {name.replace(COMPILED, ""): tensor for name, tensor in state.items()}
    while all(name.startswith(PARALLEL) for name in state):
        state = {name.removeprefix(PARALLEL): tensor for name, tensor in state.items()}
    return state
