"""Refuse unsupported fairseq checkpoints with one error, and never run pickled code."""

import argparse
import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq_checkpoint import as_cfg, save, seeded_state, settings_of, write_folder

from seq2edge.errors import CheckpointError
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.loaders.fairseq.config import UNSUPPORTED
from seq2edge_export.loaders.fairseq.files import StandIn, read_pickled


def refused(path: Path, *reasons: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path, "fairseq")
    assert "\n" not in str(caught.value)
    assert [reason for reason in reasons if reason not in str(caught.value)] == [], str(caught.value)


def test_every_reason_is_in_one_error(tmp_path: Path) -> None:
    settings = settings_of(
        {
            "arch": "bart_large",
            "task": "translation_multi_simple_epoch",
            "adaptive_softmax_cutoff": "1000,2000",
            "activation_fn": "tanh",
            "decoder_attention_heads": 2,
            "decoder_normalize_before": False,
            "encoder_layers": "six",
            "tokenizer": "nltk",
            "bpe": "gpt2",
            "unkpen": 0.5,
        }
    )
    refused(
        write_folder(tmp_path, settings, seeded_state(settings_of())),
        "the architecture bart_large",
        "the task translation_multi_simple_epoch",
        "adaptive softmax",
        "the activation tanh",
        "encoder and decoder with different attention_heads (4 and 2)",
        "encoder and decoder with different normalize_before (True and False)",
        "encoder_layers is 'six'",
        "the tokenizer nltk",
        "subwords of gpt2",
        "a penalty for unknown words in the search (unkpen)",
    )


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_every_unsupported_setting_is_named(tmp_path: Path, name: str) -> None:
    refused(write_folder(tmp_path, settings_of({name: 2})), UNSUPPORTED[name])


@pytest.mark.parametrize("arch", ["transformer_lm", "transformer_from_pretrained_xlm", "fconv", "s2t_transformer_s"])
def test_other_architectures_are_refused(tmp_path: Path, arch: str) -> None:
    refused(write_folder(tmp_path, settings_of({"arch": arch})), f"the architecture {arch}")


def test_unsupported_search_options_are_refused(tmp_path: Path) -> None:
    cfg = as_cfg(settings_of())
    cfg["generation"] |= {"sampling": True, "diverse_beam_groups": 4, "lm_path": "lm.pt"}
    folder = write_folder(tmp_path, settings_of(), args=None, cfg=cfg)
    refused(folder, "sampling in the search", "groups of beams in the search", "a language model in the search")


def test_tensors_that_do_not_match_are_named(tmp_path: Path) -> None:
    state = seeded_state(settings_of())
    del state["encoder.layers.0.fc1.bias"]
    state["decoder.layers.0.fc2.weight"] = torch.zeros(3, 4)
    state["encoder.quant_noise.weight"] = torch.zeros(16, 16)
    state["decoder.layer_norm.bias"][0] = torch.nan
    refused(
        write_folder(tmp_path, settings_of(), state),
        "model.encoder.layers.0.fc1.bias is missing",
        "model.decoder.layers.0.fc2.weight has shape (3, 4), expected (16, 24)",
        "model.encoder.quant_noise.weight is unexpected",
        "model.decoder.layer_norm.bias contains NaN",
    )


def test_learned_tables_that_do_not_match_are_named(tmp_path: Path) -> None:
    settings = settings_of({"encoder_learned_pos": True, "decoder_learned_pos": True})
    state = seeded_state(settings)
    del state["encoder.embed_positions.weight"]
    state["decoder.embed_positions.weight"] = torch.zeros(2, 16)
    refused(
        write_folder(tmp_path, settings, state),
        "model.encoder.embed_positions.weight is missing",
        "model.decoder.embed_positions.weight has shape (2, 16)",
    )


def test_huge_sizes_are_refused_before_memory_is_allocated(tmp_path: Path) -> None:
    wide = dict.fromkeys((f"decoder_{name}_dim" for name in ("embed", "input", "output")), 2**40)
    settings = settings_of({"encoder_embed_dim": 2**40, **wide, "max_source_positions": 2**60})
    refused(
        write_folder(tmp_path / "wide", settings, seeded_state(settings_of())), "must be at least 1 and at most 65,536"
    )
    settings = settings_of({"encoder_layers": 2**40})
    refused(write_folder(tmp_path / "deep", settings, seeded_state(settings_of())), "encoder has 2 layers, expected")


def test_a_final_norm_on_only_one_side_is_refused(tmp_path: Path) -> None:
    state = seeded_state(settings_of())
    state["decoder.version"] = torch.tensor([2.0])
    refused(write_folder(tmp_path / "version", settings_of(), state), "only one has a final norm")
    refused(write_folder(tmp_path / "setting", settings_of({"no_decoder_final_norm": True})), "no_decoder_final_norm")


def test_missing_files_are_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "codes", settings_of())
    (folder / "bpecodes").unlink()
    refused(folder, "the dictionary has byte pairs, but there is no file for them; copy it there as bpecodes")
    for name in ("code", "bpecodes"):
        (folder / name).write_text("")
    refused(folder, "there are bpecodes, code; keep only the one that splits text into byte pairs")
    folder = write_folder(tmp_path / "one", settings_of())
    (folder / "dict.de.txt").unlink()
    refused(folder, "there is no dict.de.txt next to model.pt")
    (folder / "dict.en.txt").unlink()
    refused(folder, "there is no dictionary (dict.<language>.txt) next to model.pt")
    refused(tmp_path, "is not a checkpoint of fairseq")
    folder = write_folder(tmp_path / "several", settings_of())
    (folder / "model.pt").rename(folder / "model1.pt")
    (folder / "model2.pt").write_bytes(b"")
    refused(folder, "has model1.pt, model2.pt; name the file")


def test_a_dictionary_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, settings_of())
    (folder / "dict.de.txt").write_text("und 3\n", encoding="utf-8")
    refused(folder, "model.decoder.embed_tokens.weight has shape (20, 16), expected (5, 16)")


@pytest.mark.parametrize("content", [{}, {"args": None, "cfg": {}}, {"args": argparse.Namespace(arch="transformer")}])
def test_files_without_settings_or_tensors_are_refused(tmp_path: Path, content: dict[str, Any]) -> None:
    folder = write_folder(tmp_path, settings_of())
    torch.save(content, folder / "model.pt")
    refused(folder, "is not a checkpoint of fairseq")


@pytest.mark.parametrize("kept", [0, 1, 100, 5000])
def test_broken_files_are_refused(tmp_path: Path, kept: int) -> None:
    folder = write_folder(tmp_path, settings_of())
    content = (folder / "model.pt").read_bytes()
    (folder / "model.pt").write_bytes(content[:kept])
    refused(folder, "model.pt")


class Calls:
    """Pickled as a call of any function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def hostile(marker: Path) -> dict[str, Any]:
    code = f"open({str(marker)!r}, 'w')"
    return {
        "os.system": Calls(os.system, f"touch {marker}"),
        "eval": Calls(eval, code),
        "exec": Calls(exec, code),
        "getattr": Calls(getattr, marker, "touch"),
        "open": Calls(open, str(marker), "w"),
        "path": Calls(os.makedirs, str(marker)),
        "import": Calls(__import__, "this"),
    }


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", hostile(Path()))
@pytest.mark.parametrize("place", ["args", "extra_state", "model"])
def test_code_in_a_checkpoint_is_never_run(tmp_path: Path, name: str, zipped: bool, place: str) -> None:
    marker = tmp_path / "it ran".replace(" ", "_")
    folder = write_folder(tmp_path / "checkpoint", settings_of())
    content = {"args": argparse.Namespace(**settings_of()), "model": seeded_state(settings_of())}
    content[place] = hostile(marker)[name] if place != "model" else {"encoder.version": hostile(marker)[name]}
    torch.save(content, folder / "model.pt", _use_new_zipfile_serialization=zipped)
    refused(folder, "which no checkpoint of fairseq does; code from a file is never run")
    assert not marker.exists()


def with_pickle(path: Path, pickled: bytes) -> None:
    """Replace the pickle in a zip file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, pickled if name.endswith("data.pkl") else content)


@pytest.mark.parametrize(
    "pickled",
    [
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x05touch\x85R.",  # a name that is built on the stack
        b"(S'touch'\nios\nsystem\n.",  # INST, of the oldest protocol
        b"\x80\x02cnumpy\nload\nq\x00X\x01\x00\x00\x00aq\x01\x85q\x02Rq\x03cbuiltins\neval\nq\x04X\x01\x00\x00\x00aq\x05\x85q\x06R.",
        b"\x80\x02}q\x00" + b"(" * 5000 + b".",
        b"\x80\x02cargparse\nNamespace\n.",
        b"garbage",
    ],
)
def test_pickles_that_torch_does_not_write_are_refused(tmp_path: Path, pickled: bytes) -> None:
    folder = write_folder(tmp_path, settings_of())
    with_pickle(folder / "model.pt", pickled)
    refused(folder, "model.pt")


def test_a_name_of_fairseq_or_numpy_becomes_a_stand_in_and_is_not_called(tmp_path: Path) -> None:
    stream = io.BytesIO()
    pickle.Pickler(stream, protocol=2).dump({"model": 1})
    called = b"\x80\x02}q\x00X\x01\x00\x00\x00aq\x01cnumpy\nload\nq\x02X\x04\x00\x00\x00fileq\x03\x85q\x04Rq\x05s."
    folder = write_folder(tmp_path, settings_of())
    with_pickle(folder / "model.pt", called)
    found = read_pickled(folder / "model.pt")["a"]
    assert isinstance(found, StandIn)
    assert (found.name, found.arguments) == ("numpy.load", ("file",))


def test_recursive_settings_are_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, settings_of())
    endless = argparse.Namespace(**settings_of())
    endless.data = endless
    save(folder / "model.pt", {"args": endless}, settings_of())
    refused(folder, "settings that are nested too deeply")
