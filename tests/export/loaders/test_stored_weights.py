"""Read the same model from every format of weights."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hostile_files import write_zip_bomb
from hugging_face_folders import FOLDERS
from safetensors.torch import save_file
from torch import Tensor

from seq2edge.errors import CheckpointError
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.loaders.fairseq.files import scan_pickle
from seq2edge_export.loaders.state_dict import StoredTensors, read_pickled, read_state_dict
from seq2edge_export.training.checkpointing import read_state

KINDS = ("marian", "marian-separate", "bart", "pegasus", "mbart", "nllb", "t5", "mt5")
State = dict[str, Tensor]


def in_one_bin(folder: Path, state: State) -> None:
    torch.save(state, folder / "pytorch_model.bin")  # with the tied tensors under all of their names


def in_one_old_bin(folder: Path, state: State) -> None:
    torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def in_safetensors(folder: Path, state: State) -> None:
    save_file(untied(state), folder / "model.safetensors")


def in_bin_shards(folder: Path, state: State) -> None:
    in_shards(folder, state, "pytorch_model-{}.bin", torch.save)


def in_safetensors_shards(folder: Path, state: State) -> None:
    in_shards(folder, untied(state), "model-{}.safetensors", save_file)


def in_shards(folder: Path, state: State, name: str, write: Callable[[State, Path], Any]) -> None:
    places = {tensor: name.format(f"0000{place % 3 + 1}-of-00003") for place, tensor in enumerate(state)}
    for file in set(places.values()):
        write({tensor: content for tensor, content in state.items() if places[tensor] == file}, folder / file)
    index = name.format("").replace("-", "") + ".index.json"
    (folder / index).write_text(json.dumps({"weight_map": places}))


def untied(state: State) -> State:
    """Return every tensor once, as safetensors requires."""
    first = {content.data_ptr(): name for name, content in reversed(state.items())}
    return {name: content for name, content in state.items() if first[content.data_ptr()] == name}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, State]]:
    """Return a folder of each kind without weights, and the weights."""
    made: dict[str, tuple[Path, State]] = {}

    def folder(name: str) -> tuple[Path, State]:
        if name not in made:
            path = tmp_path_factory.mktemp(name) / name
            made[name] = path, FOLDERS[name][0](path).state_dict()
        clear(path := made[name][0])
        return path, made[name][1]

    return folder


def clear(folder: Path) -> None:
    for file in (*folder.glob("*model*.bin*"), *folder.glob("*.safetensors*")):
        file.unlink()


def parameters(folder: Path) -> State:
    return {name: parameter.detach() for name, parameter in load_checkpoint(folder).model.named_parameters()}


STORES = {
    torch.float32: (in_one_old_bin, in_safetensors, in_bin_shards, in_safetensors_shards),
    torch.float16: (in_one_bin, in_safetensors_shards),
    torch.bfloat16: (in_bin_shards, in_safetensors),
}


@pytest.mark.parametrize("dtype", STORES, ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_every_way_to_store_weights_gives_the_same_model(name: str, dtype: torch.dtype, folders: Any) -> None:
    folder, full = folders(name)
    narrow = {pointer: content.to(dtype) for pointer, content in {t.data_ptr(): t for t in full.values()}.items()}
    state = {tensor: narrow[content.data_ptr()] for tensor, content in full.items()}  # tied ones still are
    in_one_bin(folder, {tensor: content.float() for tensor, content in state.items()})
    wanted = parameters(folder)
    for store in STORES[dtype]:
        clear(folder)
        store(folder, state)
        found = parameters(folder)
        assert found.keys() == wanted.keys()
        assert all(content.dtype == torch.float32 and not content.is_meta for content in found.values())
        assert [tensor for tensor in wanted if not torch.equal(found[tensor], wanted[tensor])] == [], store.__name__


def test_a_model_does_not_change_with_its_file(folders: Any) -> None:
    folder, state = folders("bart")
    in_safetensors(folder, state)
    before = load_checkpoint(folder).model
    kept = {name: parameter.clone() for name, parameter in before.named_parameters()}
    file = folder / "model.safetensors"
    file.write_bytes(b"\0" * file.stat().st_size)  # in place
    assert all(torch.equal(parameter, kept[name]) for name, parameter in before.named_parameters())


def test_stored_tensors_are_released_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2edge_export.loaders.state_dict.REOPEN_AFTER", 100)
    state = {f"t{number}": torch.full((20,), float(number)) for number in range(9)}
    save_file(state, tmp_path / "a.safetensors")
    stored = StoredTensors([tmp_path / "a.safetensors"])
    opened = []
    for name, tensor in stored.items():
        assert torch.equal(tensor, state[name])
        assert stored._open is not None
        opened.append(id(stored._open[1]))
    assert len(set(opened)) > 1


READERS: dict[str, Callable[[Path], object]] = {
    "weights": read_state_dict,
    "pickle": read_pickled,
    "fairseq": scan_pickle,
    "training state": read_state,
}


@pytest.mark.parametrize("declared", [None, 1000])
@pytest.mark.parametrize("reader", READERS)
def test_a_compressed_file_of_torch_is_refused_before_it_is_read(
    reader: str, declared: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "model.pt"
    write_zip_bomb(path, 3000, declared=declared)
    with pytest.raises(CheckpointError, match="compressed or larger than the file"):
        READERS[reader](path)


def test_looking_for_the_family_of_a_compressed_file_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    write_zip_bomb(path, 300)
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError):
            load_checkpoint(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000  # of 300 MB
    finally:
        tracemalloc.stop()
