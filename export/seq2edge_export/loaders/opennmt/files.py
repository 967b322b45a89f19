"""Read checkpoints of OpenNMT-py 3 (a pickled file, or one with a safetensors file next to it) and folders of eole."""

import pickletools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.hugging_face.config import CONFIG
from seq2edge_export.loaders.state_dict import (
    Namespace,
    StateDict,
    read_object,
    read_pickle_bytes,
    read_pickled,
    read_state_dict,
)

Framework = Literal["opennmt-py", "eole"]
Options = Mapping[str, Any]
SAFETENSORS = ".safetensors"
VOCABULARY, WEIGHTS = "vocab.json", "model.*.safetensors"  # of eole
TYPICAL = {"opt", "vocab", "argparse Namespace"}  # strings in the pickle of every checkpoint
OUTPUT = "generator"
OLD_NORM = {"a_2": "weight", "b_2": "bias"}


@dataclass(frozen=True, kw_only=True)
class OpenNmtFiles:
    """The content of a checkpoint, not yet interpreted."""

    path: Path
    folder: Path  # with the tokenizer files
    framework: Framework
    options: Options
    vocabulary: Any
    state: StateDict


def is_pt_file(path: Path) -> bool:
    """Return whether a pickle has the strings of an OpenNMT-py checkpoint; nothing is unpickled."""
    try:
        operations = pickletools.genops(read_pickle_bytes(path))
        return {text for _, text, _ in operations if isinstance(text, str)} >= TYPICAL
    except Exception:  # any other file
        return False


def is_eole_folder(path: Path) -> bool:
    if not (path / CONFIG).is_file() or not (path / VOCABULARY).is_file():
        return False
    return isinstance(read_object(path / CONFIG).get("model"), dict)


def read_pt_file(path: Path) -> OpenNmtFiles:
    content = _read_pickle(path)
    return OpenNmtFiles(
        path=path,
        folder=path.parent,
        framework="opennmt-py",
        options=vars(content["opt"]),
        vocabulary=content["vocab"],
        state=_pickled_state(content) if "model" in content else _safetensors_state(path),
    )


def read_eole_folder(path: Path) -> OpenNmtFiles:
    files = sorted(path.glob(WEIGHTS))
    if not files:
        raise CheckpointError(f"{path} has no {WEIGHTS}, the weights of a model of eole")
    return OpenNmtFiles(
        path=path,
        folder=path,
        framework="eole",
        options=read_object(path / CONFIG),
        vocabulary=read_object(path / VOCABULARY),
        state={name: tensor for file in files for name, tensor in read_state_dict(file).items()},
    )


def section(options: Options, name: str) -> dict[str, Any]:
    """Return a section of eole's options, empty if it is missing."""
    content = options.get(name)
    return content if isinstance(content, dict) else {}


def _read_pickle(path: Path) -> dict[str, Any]:
    try:
        content = read_pickled(path)
    except CheckpointError as error:
        if "torchtext" not in str(error):
            raise
        raise CheckpointError(
            f"{path} was written by OpenNMT-py 2 or older; convert it with tools/convertv2_v3.py of OpenNMT-py 3"
        ) from None
    if not isinstance(content, dict) or not isinstance(content.get("opt"), Namespace) or "vocab" not in content:
        raise CheckpointError(f"{path} is not a checkpoint of OpenNMT-py 3, which has vocab, and opt with the settings")
    return content


def _pickled_state(content: dict[str, Any]) -> StateDict:
    state = {_new_name(str(name)): tensor for name, tensor in _entries(content["model"])}
    for name, tensor in _entries(content.get("generator")):
        state[f"{OUTPUT}.{str(name).removeprefix('0.')}"] = tensor
    return {name: tensor for name, tensor in state.items() if isinstance(tensor, Tensor)}


def _safetensors_state(path: Path) -> StateDict:
    """Read the tensors next to a pickle that has none, from one file or several numbered ones."""
    state: StateDict = {}
    for file in (
        file
        for file in sorted(path.parent.iterdir())
        if file.suffix == SAFETENSORS and file.name.startswith(f"{path.stem}.")
    ):
        state |= read_state_dict(file)
    if not state:
        raise CheckpointError(f"{path} holds no tensors, and there is no {path.stem}{SAFETENSORS} next to it")
    return state


def _entries(content: Any) -> list[tuple[Any, Any]]:
    return list(content.items()) if isinstance(content, dict) else []


def _new_name(name: str) -> str:
    """Return the current name of a tensor; norms had other names in old models."""
    return re.sub(r"(?<=\.)(a_2|b_2)$", lambda match: OLD_NORM[match[0]], name)
