"""Read the files of Hugging Face folders, and refuse unsupported ones."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from hugging_face_models import make_model, save, write_bart, write_json, write_marian
from safetensors.torch import load_file, save_file
from small_hub import small_hub

from seq2edge.errors import CheckpointError
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.loaders import detect, load_checkpoint
from seq2edge_export.loaders.hugging_face.config import read_config
from seq2edge_export.loaders.hugging_face.load import build, is_hub_name
from seq2edge_export.loaders.hugging_face.weights import read_weights


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "bart"
    write_bart(path)
    return path


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder that a test can change."""
    new = tmp_path / "copy"
    new.mkdir()
    for file in folder.iterdir():
        (new / file.name).write_bytes(file.read_bytes())
    return new


def change(path: Path, **settings: Any) -> None:
    content = json.loads(path.read_text(encoding="utf-8")) | settings
    write_json(path, {name: value for name, value in content.items() if value != "remove"})


def weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    return dict(checkpoint.model.named_parameters())


def assert_equal(ours: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == wanted.keys()
    assert all(torch.equal(ours[name], wanted[name]) for name in wanted)


class TestWeights:
    def test_a_bin_file_gives_the_same_model_as_safetensors(self, folder: Path, copy: Path) -> None:
        state = load_file(copy / "model.safetensors")
        (copy / "model.safetensors").unlink()
        torch.save({**state, "lm_head.weight": state["model.shared.weight"]}, copy / "pytorch_model.bin")
        assert_equal(weights(load_checkpoint(copy)), weights(load_checkpoint(folder)))

    def test_code_in_a_bin_file_is_not_run(self, copy: Path) -> None:
        (copy / "model.safetensors").unlink()
        (copy / "pytorch_model.bin").write_bytes(pickle.dumps({"model.shared.weight": print}))
        with pytest.raises(CheckpointError, match="code from a file is never run"):
            load_checkpoint(copy)

    @pytest.mark.parametrize("kind", ["safetensors", "bin"])
    def test_shards_are_put_together(self, kind: str, folder: Path, copy: Path) -> None:
        state = load_file(copy / "model.safetensors")
        (copy / "model.safetensors").unlink()
        base = {"safetensors": "model", "bin": "pytorch_model"}[kind]
        names, places = sorted(state), {}
        for number in (1, 2, 3):
            file = f"{base}-0000{number}-of-00003.{kind}"
            part = {name: state[name] for name in names[number - 1 :: 3]}
            places |= dict.fromkeys(part, file)
            (save_file if kind == "safetensors" else torch.save)(part, copy / file)
        write_json(copy / f"{base}.{kind}.index.json", {"weight_map": places})
        assert_equal(weights(load_checkpoint(copy)), weights(load_checkpoint(folder)))
        (copy / f"{base}-00002-of-00003.{kind}").unlink()
        with pytest.raises(CheckpointError, match="00002-of-00003"):
            load_checkpoint(copy)

    def test_an_index_with_files_in_other_folders_is_refused(self, copy: Path) -> None:
        (copy / "model.safetensors").rename(copy.parent / "model.safetensors")
        write_json(copy / "model.safetensors.index.json", {"weight_map": {"a": "../model.safetensors"}})
        with pytest.raises(CheckpointError, match="which is not a file next to it"):
            load_checkpoint(copy)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_precision_is_converted(self, dtype: torch.dtype, folder: Path, copy: Path) -> None:
        state = {name: tensor.to(dtype) for name, tensor in load_file(copy / "model.safetensors").items()}
        save_file(state, copy / "model.safetensors")
        wanted = {name: tensor.to(dtype).float() for name, tensor in weights(load_checkpoint(folder)).items()}
        assert_equal(weights(load_checkpoint(copy)), wanted)

    def test_names_of_a_model_without_output_layer_are_read(self, folder: Path, copy: Path) -> None:
        state = load_file(copy / "model.safetensors")
        bare = {name.removeprefix("model."): tensor for name, tensor in state.items() if name != "final_logits_bias"}
        save_file(bare | {"encoder.version": torch.ones(1)}, copy / "model.safetensors")
        assert_equal(weights(load_checkpoint(copy)), weights(load_checkpoint(folder)))

    def test_weights_of_another_framework_are_named_in_the_error(self, copy: Path) -> None:
        (copy / "model.safetensors").unlink()
        (copy / "tf_model.h5").write_bytes(b"")
        with pytest.raises(
            CheckpointError, match=r"has no weights: .* not those of TensorFlow; load it in transformers"
        ):
            load_checkpoint(copy)


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("bart", {"tie_word_embeddings": False}),
        ("bart", {"scale_embedding": True, "activation_function": "relu"}),
        ("mbart", {"activation_function": "gelu_new", "tie_word_embeddings": False}),
        ("pegasus", {"activation_function": "swish", "scale_embedding": True}),
        ("m2m100", {"activation_function": "quick_gelu", "scale_embedding": False}),
        ("m2m100", {"d_model": 30, "encoder_attention_heads": 5, "decoder_attention_heads": 5, "pad_token_id": 3}),
        ("marian", {"decoder_layers": 1, "activation_function": "relu", "share_encoder_decoder_embeddings": False}),
        ("marian", {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 70}),
    ],
)
def test_every_setting_of_the_config_has_its_effect(family: str, settings: dict[str, Any], tmp_path: Path) -> None:
    from seq2edge_export.loaders.hugging_face import bart, m2m100, marian, mbart, pegasus

    modules = {"bart": bart, "mbart": mbart, "pegasus": pegasus, "m2m100": m2m100, "marian": marian}
    marks = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    model = save(make_model(family, **({"vocab_size": 90} | marks | settings)), tmp_path)
    traits = modules[family].TRAITS
    ours = build(tmp_path, read_config(tmp_path, dict(traits.defaults))[0], traits, read_weights(tmp_path))
    source, target = torch.randint(4, 90, (3, 11)), torch.randint(4, 70, (3, 7))
    with torch.no_grad():
        theirs = model(source, torch.ones_like(source), decoder_input_ids=target).logits
        assert (ours(source, torch.ones_like(source).bool(), target) - theirs).abs().max() < 3e-5


def test_search_options_of_an_old_config_are_read(copy: Path) -> None:
    (copy / "generation_config.json").unlink()
    options = {"num_beams": 3, "max_length": 44, "bad_words_ids": [[7]], "force_bos_token_to_be_generated": True}
    change(copy / "config.json", **options)
    found = load_checkpoint(copy).generation
    assert (found.num_beams, found.max_length, found.bad_words_ids) == (3, 44, ((7,),))
    assert (found.decoder_start_token_id, found.forced_bos_token_id, found.forced_eos_token_id) == (2, 0, 2)


def test_the_maximum_length_is_limited_to_the_positions(copy: Path) -> None:
    change(copy / "generation_config.json", max_length=500)
    assert load_checkpoint(copy).generation.longest(1) == 1 + 96


def test_licence_and_name_come_from_the_card(copy: Path) -> None:
    (copy / "README.md").write_text("---\nlanguage: en\nlicense: cc-by-4.0\n---\n# Model\n")
    change(copy / "config.json", _name_or_path="someone/some-model")
    config = load_checkpoint(copy).config
    assert (config.license, config.attribution) == ("cc-by-4.0", "someone/some-model")


class TestRefused:
    def test_all_reasons_are_in_one_error(self, copy: Path) -> None:
        change(copy / "config.json", decoder_ffn_dim=64, decoder_attention_heads=2, activation_function="tanh")
        change(copy / "config.json", normalize_before=True, quantization_config={"bits": 4})
        change(copy / "generation_config.json", num_beam_groups=2, begin_suppress_tokens=[5], top_p=3.0)
        (copy / "merges.txt").unlink()
        with pytest.raises(CheckpointError) as error:
            load_checkpoint(copy)
        for reason in (
            "different attention_heads (4 and 2)",
            "different ffn_dim (48 and 64)",
            "the activation tanh",
            "already quantized",
            "normalize_before = True, where this family has False",
            "num_beam_groups = 2 in generation_config.json, which the search does not support",
            "begin_suppress_tokens = [5]",
            "top_p is 3.0",
        ):
            assert reason in str(error.value)

    def test_tensors_that_do_not_match_are_named(self, copy: Path) -> None:
        state = load_file(copy / "model.safetensors")
        del state["model.encoder.layers.1.fc1.bias"]
        state["model.adapter.weight"] = torch.ones(3)
        state["model.decoder.layers.0.fc2.bias"] = torch.full((32,), torch.nan)
        state["model.encoder.embed_positions.weight"] = torch.ones(5, 32)
        save_file(state, copy / "model.safetensors")
        with pytest.raises(CheckpointError) as error:
            load_checkpoint(copy)
        for reason in (
            "model.encoder.layers.1.fc1.bias is missing",
            "model.adapter.weight is unexpected",
            "model.decoder.layers.0.fc2.bias contains NaN",
            "model.encoder.embed_positions.weight has shape (5, 32), expected (98, 32)",
        ):
            assert reason in str(error.value)

    def test_an_unsupported_model_type_is_named(self, copy: Path) -> None:
        change(copy / "config.json", model_type="whisper")
        with pytest.raises(CheckpointError, match="a Hugging Face model of the type 'whisper', which is not supported"):
            detect(copy)

    def test_missing_sizes_in_the_config_are_named(self, copy: Path) -> None:
        change(copy / "config.json", d_model="remove", vocab_size="many")
        with pytest.raises(CheckpointError, match="vocab_size is 'many'; d_model is None"):
            load_checkpoint(copy)

    def test_two_vocabularies_must_have_the_same_special_ids(self, tmp_path: Path) -> None:
        write_marian(tmp_path / "marian", separate=True)
        change(tmp_path / "marian" / "vocab.json", **{"</s>": 1, "<unk>": 0})
        with pytest.raises(CheckpointError, match=r"'</s>' has the ids \(1, 0\) in the vocabularies"):
            load_checkpoint(tmp_path / "marian")


def use_hub(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    files = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", files)


class TestHub:
    @pytest.mark.parametrize(
        ("path", "expected"),
        [("Helsinki-NLP/opus-mt-en-de", True), ("opus-mt-en-de", False), ("a/b/c", False), ("/a/b", False)],
    )
    def test_a_hub_name_has_two_parts_and_no_local_folder(self, path: str, expected: bool) -> None:
        assert is_hub_name(Path(path)) == expected

    def test_a_missing_folder_is_not_a_hub_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "models").mkdir()
        with pytest.raises(CheckpointError, match="models/en-de does not exist"):
            load_checkpoint(Path("models/en-de"))

    def test_a_model_is_downloaded_once_with_the_files_that_are_read(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, copy: Path
    ) -> None:
        for other in ("tf_model.h5", "pytorch_model.bin", "picture.png"):
            (copy / other).write_bytes(b"not wanted")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        with small_hub("someone/some-model", copy) as (address, fetched):
            use_hub(monkeypatch, address)
            for _ in range(2):
                assert_equal(weights(load_checkpoint(Path("someone/some-model"))), weights(load_checkpoint(copy)))
        wanted = {"config.json", "generation_config.json", "merges.txt", "model.safetensors", "vocab.json"}
        assert sorted(fetched) == sorted(wanted)

    def test_bin_files_are_downloaded_if_there_are_no_safetensors(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, copy: Path
    ) -> None:
        state = load_file(copy / "model.safetensors")
        (copy / "model.safetensors").unlink()
        torch.save(state, copy / "pytorch_model.bin")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        with small_hub("someone/some-model", copy) as (address, fetched):
            use_hub(monkeypatch, address)
            assert_equal(weights(load_checkpoint(Path("someone/some-model"))), weights(load_checkpoint(copy)))
        assert "pytorch_model.bin" in fetched

    def test_a_name_that_is_not_on_the_hub_is_refused(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
        with small_hub("someone/some-model", tmp_path) as (address, _):
            use_hub(monkeypatch, address)
            with pytest.raises(CheckpointError, match=r"cannot be downloaded from the Hugging Face Hub"):
                load_checkpoint(Path("nobody/nothing"))

    @pytest.mark.parametrize("offline", [True, False])
    def test_a_missing_network_is_one_clear_error(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, offline: bool
    ) -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
        use_hub(monkeypatch, "http://127.0.0.1:1")  # where nobody listens
        with pytest.raises(CheckpointError) as caught:
            load_checkpoint(Path("nobody/nothing"))
        assert str(caught.value) == (
            "nobody/nothing is not a folder, and the Hugging Face Hub, where it could be a model, cannot be reached "
            "(nor was it downloaded before): connect to the network, or name the path of a folder"
        )
