"""The tensors of a Hugging Face folder, in one file or many; needs torch and safetensors."""

from pathlib import Path, PurePath

from seq2edge.errors import CheckpointError
from seq2edge_export.json_object import read_object
from seq2edge_export.stored_tensors import StoredTensors

FILES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
OTHERS = {"tf_model.h5": "TensorFlow", "flax_model.msgpack": "Flax", "rust_model.ot": "Rust"}


def read_weights(folder: Path) -> StoredTensors:
    """Every tensor by its name, in the precision that it is stored in."""
    file = next((folder / name for name in FILES if (folder / name).is_file()), None)
    if file is None:
        raise CheckpointError(f"{folder} has no weights: {FILES[0]} or {FILES[2]} is wanted{_instead(folder)}")
    if file.suffix != ".json":
        return StoredTensors([file])
    state = StoredTensors(folder / name for name in _shards(file))
    missing = sorted(read_object(file)["weight_map"].keys() - state.keys())
    if missing:
        raise CheckpointError(
            f"{file} names {', '.join(missing)}, which none of its files holds; copy the folder again"
        )
    return state


def _shards(index: Path) -> list[str]:
    names = read_object(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise CheckpointError(f"{index} has no weight_map, which says where each tensor is")
    files = sorted({str(name) for name in names.values()})
    outside = [name for name in files if PurePath(name).name != name]
    if outside:
        raise CheckpointError(f"{index} names {outside[0]!r}, which is not a file beside it")
    return files


def _instead(folder: Path) -> str:
    found = [words for name, words in OTHERS.items() if (folder / name).is_file()]
    if not found:
        return ""
    return f", not those of {found[0]}; load it in transformers and write it with save_pretrained"
