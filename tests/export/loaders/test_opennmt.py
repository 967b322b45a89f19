"""Load checkpoints of OpenNMT-py 3 and eole, and refuse those that are unsupported or broken."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from opennmt_model import (
    PIECES,
    Reference,
    Shape,
    as_onmt,
    eole_config,
    onmt_content,
    seeded,
    write_eole,
    write_onmt,
    write_pieces,
)
from safetensors.torch import save_file
from sentencepiece import SentencePieceProcessor
from tiny_checkpoint import SENTENCES
from tolerances import network_rounding

from seq2edge import Translator
from seq2edge.errors import CheckpointError
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import detect, load_checkpoint
from seq2edge_export.loaders.state_dict import read_pickled

DEFAULT = Shape()
ONMT = {
    "as in the documentation": DEFAULT,
    "RMS norms, gated SiLU, two heads of keys": Shape(
        norm="rms",
        activation="silu",
        gated=True,
        key_heads=2,
        positions="SinusoidalConcat",
        attention_bias=True,
        feed_forward_bias=True,
        shared=False,
        tied=False,
    ),
    "no positions": Shape(positions=None, activation="gelu", feed_forward_bias=True, tied=False),
    "separate vocabularies": Shape(activation="gelu", gated=True, shared=False, source_tokens=290, epsilon=1e-5),
}
EOLE = {
    "as in the documentation": replace(DEFAULT, epsilon=1e-5),
    "learned positions": Shape(
        positions="Learned", shift=2, normalize=True, activation="gelu", gated=True, norm="rms", key_heads=1
    ),
    "heads of a width of their own": Shape(
        head_width=12, scaling=9.0, activation="gelu-tanh", gated=True, attention_bias=True, tied=False
    ),
    "no positions": Shape(positions=None, normalize=True, activation="quick_gelu", output_bias=False, shared=False),
    "separate vocabularies": Shape(activation="silu", shared=False, source_tokens=290, positions="SinusoidalConcat"),
}


def check_logits(path: Path, shape: Shape, state: dict[str, torch.Tensor]) -> None:
    """Compare a batch of sentences of different lengths with the reference, which computes one at a time."""
    random = torch.Generator().manual_seed(1)
    sources = torch.randint(0, shape.source_tokens, (3, 9), generator=random)
    targets = torch.randint(0, len(PIECES), (3, 7), generator=random)
    lengths = [9, 5, 2]
    with torch.inference_mode():
        mask = torch.arange(9) < torch.tensor(lengths)[:, None]
        model = load_checkpoint(path).model
        found, limit = model(sources, mask, targets), network_rounding(model.architecture, size=20)
        for row, length in enumerate(lengths):
            wanted = Reference(shape, state).logits(sources[row, :length].tolist(), targets[row].tolist())
            torch.testing.assert_close(found[row], wanted, atol=limit, rtol=0)


def refusal(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path, "opennmt")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("shape", ONMT.values(), ids=ONMT)
def test_a_model_of_opennmt_py_has_the_reference_logits(tmp_path: Path, shape: Shape) -> None:
    state = seeded(shape)
    check_logits(write_onmt(tmp_path, onmt_content(shape, state)), shape, state)


@pytest.mark.parametrize("shape", EOLE.values(), ids=EOLE)
def test_a_model_of_eole_has_the_reference_logits(tmp_path: Path, shape: Shape) -> None:
    state = seeded(shape)
    check_logits(write_eole(tmp_path, shape, state), shape, state)


def test_missing_settings_of_eole_have_its_defaults(tmp_path: Path) -> None:
    shape = replace(DEFAULT, heads=8, key_heads=8, head_width=4, epsilon=1e-5)
    config = eole_config(shape)
    config["model"] = {"share_embeddings": True, "share_decoder_embeddings": True}
    state = seeded(shape)
    check_logits(write_eole(tmp_path, shape, state, config), shape, state)


def test_equal_embeddings_are_tied(tmp_path: Path) -> None:
    shape = load_checkpoint(write_onmt(tmp_path, onmt_content(DEFAULT, seeded(DEFAULT)))).model.architecture
    assert (shape.joint_vocabulary, shape.tied_output, shape.positions) == (True, True, "sinusoidal")
    assert (shape.max_positions, shape.bias, shape.output_bias) == (70, False, True)


@pytest.mark.parametrize(
    "names", [["model_step_1.safetensors"], ["model_step_1.00.safetensors", "model_step_1.01.safetensors"]]
)
def test_the_tensors_can_be_in_separate_files(tmp_path: Path, names: list[str]) -> None:
    state = seeded(DEFAULT)
    content = onmt_content(DEFAULT, state)
    del content["model"], content["generator"]
    path = write_onmt(tmp_path, content)
    assert "holds no tensors, and there is no model_step_1.safetensors next to it" in refusal(path)
    items = [(name, tensor.clone()) for name, tensor in as_onmt(state).items()]
    for number, name in enumerate(names):
        save_file(dict(items[number :: len(names)]), tmp_path / name)
    check_logits(path, DEFAULT, state)


def test_old_names_of_norms_and_output_are_read(tmp_path: Path) -> None:
    state = seeded(DEFAULT)
    content = onmt_content(DEFAULT, state)
    renamed = {"layer_norm.weight": "layer_norm.a_2", "layer_norm.bias": "layer_norm.b_2"}
    for new, old in renamed.items():
        for name in [name for name in content["model"] if name.endswith(new)]:
            content["model"][name.replace(new, old)] = content["model"].pop(name)
    content["generator"] = {f"0.{name}": tensor for name, tensor in content["generator"].items()}
    check_logits(write_onmt(tmp_path, content), DEFAULT, state)


def test_the_bundle_of_a_checkpoint_translates_as_the_model(tmp_path: Path) -> None:
    shape = replace(DEFAULT, tied=False)
    state = seeded(shape, seed=9)
    bundle = export_bundle(write_onmt(tmp_path, onmt_content(shape, state)), tmp_path / "bundle", compare=False)
    generation = bundle.manifest.generation
    assert (generation.num_beams, generation.max_new_tokens, generation.length_penalty) == (5, 70, 1.0)
    translator = Translator(bundle.folder, threads=1)
    texts = SENTENCES[::60]
    results = translator.translate(texts, num_beams=1, max_new_tokens=24)
    pieces = SentencePieceProcessor(model_file=str(tmp_path / "pieces.model"))
    for text, result in zip(texts, results, strict=True):
        source = [PIECES.index(piece) for piece in pieces.encode(text, out_type=str)]  # without an end
        assert list(result.tokens) == Reference(shape, state).greedy(source, 24)
        said = [PIECES[number] for number in result.tokens if PIECES[number] != "</s>"]
        assert result.text == pieces.decode(said)
    assert len({len(result.tokens) for result in results}) > 3


def with_options(**options: Any) -> dict[str, Any]:
    content = onmt_content(DEFAULT, seeded(DEFAULT))
    vars(content["opt"]).update(options)
    return content


def ids_of(path: Path, text: str) -> list[int]:
    return load_checkpoint(path).source_model().tokenizer().encode([text])[0]


def test_pyonmttok_with_only_sentencepiece_is_sentencepiece(tmp_path: Path) -> None:
    plain = {f"{side}_subword_type": "sentencepiece" for side in ("src", "tgt")}
    kwargs = {"src_onmttok_kwargs": "{'mode': 'none'}", "tgt_onmttok_kwargs": {"mode": "none"}}
    wanted = ids_of(write_onmt(tmp_path, with_options()), SENTENCES[0])
    assert (
        ids_of(write_onmt(tmp_path, with_options(transforms=["onmt_tokenize"], **plain, **kwargs)), SENTENCES[0])
        == wanted
    )


def test_the_transforms_of_training_are_used_if_there_are_no_others(tmp_path: Path) -> None:
    data = {"first": {"transforms": ["sentencepiece", "filtertoolong"]}, "second": {"transforms": ["sentencepiece"]}}
    content = with_options(transforms=[], data=data)
    assert ids_of(write_onmt(tmp_path, content), SENTENCES[0]) == ids_of(
        write_onmt(tmp_path, with_options()), SENTENCES[0]
    )


def test_without_transforms_a_sentencepiece_model_in_the_folder_is_used(tmp_path: Path) -> None:
    wanted = ids_of(write_onmt(tmp_path, with_options()), SENTENCES[0])
    path = write_onmt(tmp_path, with_options(transforms=[]))
    assert ids_of(path, SENTENCES[0]) == wanted
    (tmp_path / "pieces.model").unlink()
    assert "holds subwords of SentencePiece, but no transform names their tokenizer" in refusal(path)


def words(*tokens: str) -> list[str]:
    """Return a vocabulary of the size of the model."""
    listed = ["<unk>", "<blank>", "<s>", "</s>", *tokens]
    return listed + [f"word{number}" for number in range(len(PIECES) - len(listed))]


def test_byte_pair_codes_are_used(tmp_path: Path) -> None:
    (tmp_path / "codes").write_text("#version: 0.2\na b</w>\na b\n", encoding="utf-8")
    content = with_options(transforms=["bpe"], src_subword_model="/elsewhere/codes", tgt_subword_model="codes")
    content["vocab"]["src"] = content["vocab"]["tgt"] = words("ab", "ab@@", "a")
    assert ids_of(write_onmt(tmp_path, content), "ab aba x") == [4, 5, 6, 0]


def test_words_are_split_at_spaces(tmp_path: Path) -> None:
    content = with_options(transforms=[])
    content["vocab"]["src"] = content["vocab"]["tgt"] = words("good", "morning", ".")
    path = write_onmt(tmp_path, content)
    (tmp_path / "pieces.model").unlink()
    assert ids_of(path, "good morning . x") == [4, 5, 6, 0]


def test_a_missing_subword_model_is_named(tmp_path: Path) -> None:
    path = write_onmt(tmp_path, with_options())
    (tmp_path / "pieces.model").unlink()
    assert f"{tmp_path} has no pieces.model, which the transform sentencepiece needs; copy it there" in refusal(path)


def test_special_tokens_have_the_ids_of_the_vocabulary(tmp_path: Path) -> None:
    tokens = load_checkpoint(write_onmt(tmp_path, with_options())).config.tokens
    assert (tokens.unk, tokens.pad, tokens.bos, tokens.eos) == (0, 1, 2, 3)
    content = with_options()
    content["vocab"]["decoder_start_token"] = "</s>"
    assert load_checkpoint(write_onmt(tmp_path, content)).generation.decoder_start_token_id == 3
    content["vocab"]["decoder_start_token"] = "<start>"
    assert "has no '<start>', but outputs start with" in refusal(write_onmt(tmp_path, content))


def test_the_unknown_token_must_have_one_id(tmp_path: Path) -> None:
    content = with_options()
    content["vocab"]["src"] = list(reversed(PIECES))
    assert f"'<unk>' has the id {len(PIECES) - 1} in the source vocabulary" in refusal(write_onmt(tmp_path, content))


def test_a_vocabulary_of_another_size_is_refused(tmp_path: Path) -> None:
    content = with_options()
    content["vocab"]["src"] = content["vocab"]["src"][:-1]
    size = len(PIECES)
    assert f"has {size - 1} source tokens, but its model {size}" in refusal(write_onmt(tmp_path, content))


def test_special_tokens_and_search_options_of_eole_are_read(tmp_path: Path) -> None:
    config = eole_config(DEFAULT)
    config["inference"] = {
        "beam_size": 3,
        "max_length": 40,
        "min_length": 2,
        "block_ngram_repeat": 3,
        "ban_unk_token": True,
        "optional_eos": [PIECES[9], "not there"],
        "alpha": 0.5,
    }
    folder = write_eole(tmp_path, DEFAULT, seeded(DEFAULT), config)
    file = folder / "vocab.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["specials"] |= {"pad_token": PIECES[5], "eos_token": PIECES[7]}
    file.write_text(json.dumps(content), encoding="utf-8")
    checkpoint = load_checkpoint(folder)
    found = checkpoint.generation
    assert (checkpoint.config.tokens.pad, found.eos_ids, found.suppress_tokens) == (5, (7, 9), (0,))
    assert (found.num_beams, found.max_new_tokens, found.min_new_tokens) == (3, 40, 2)
    assert (found.no_repeat_ngram_size, found.length_penalty) == (3, 0.5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_relative_positions": -1}, "rotary positions (max_relative_positions = -1)"),
        ({"max_relative_positions": -2}, "ALiBi positions"),
        ({"max_relative_positions": 20}, "relative positions (max_relative_positions = 20)"),
        ({"relative_positions_buckets": 32}, "relative attention bias"),
        ({"encoder_type": "brnn"}, "encoders other than the Transformer's (encoder_type = 'brnn')"),
        ({"decoder_type": "rnn"}, "decoders other than the Transformer's"),
        ({"model_task": "lm"}, "language models"),
        ({"self_attn_type": "average"}, "average attention"),
        ({"parallel_residual": True}, "parallel residuals"),
        ({"sliding_window": 8}, "attention within a window"),
        ({"num_experts": 4}, "experts"),
        ({"copy_attn": True}, "copy attention"),
        ({"generator_function": "sparsemax"}, "outputs without a softmax"),
        ({"n_src_feats": 1}, "several source features"),
        ({"quant_type": "bnb_8bit"}, "weights that are already quantized"),
        ({"pos_ffn_activation_fn": "tanh"}, "the activation tanh"),
        ({"layer_norm": "batch"}, "norms of the kind batch"),
        ({"transforms": ["prefix", "sentencepiece"]}, "the transform prefix"),
        ({"transforms": ["sentencepiece", "bpe"]}, "several tokenizers, one after another (sentencepiece, bpe)"),
        ({"src_vocab_threshold": 9, "src_subword_vocab": "v"}, "subwords that a vocabulary limits"),
        ({"transforms": ["onmt_tokenize"]}, "pyonmttok that does more than SentencePiece (src: none"),
    ],
)
def test_unsupported_options_of_opennmt_py_are_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    message = refusal(write_onmt(tmp_path, with_options(**options)))
    assert words in message
    assert "is not supported by the family opennmt" in message


def test_every_reason_is_in_one_error(tmp_path: Path) -> None:
    message = refusal(
        write_onmt(tmp_path, with_options(max_relative_positions=-1, copy_attn=True, transforms=["docify"]))
    )
    assert message.endswith(
        "opennmt: copy attention (copy_attn = True); rotary positions (max_relative_positions = -1); "
        "the transform docify"
    )


def test_lora_weights_are_refused(tmp_path: Path) -> None:
    content = with_options(lora_layers=["linear_values"], copy_attn=True)
    content["model"] = {"encoder.transformer.0.self_attn.linear_values.lora_A": torch.ones(2, 32)}
    content["generator"] = None
    message = refusal(write_onmt(tmp_path, content))
    assert "copy attention (copy_attn = True); LoRA weights, without the model that they belong to" in message


def set_model(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda config: config["model"].update({name: value})


def set_side(side: str, name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda config: config["model"][side].update({name: value})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_side("embeddings", "position_encoding_type", "Rotary"), "(position_encoding_type = 'Rotary')"),
        (set_side("embeddings", "embedding_type", "roberta"), "embeddings of RoBERTa"),
        (set_side("encoder", "encoder_layer_style", "postnorm"), "norms behind the sublayers of the encoder"),
        (set_side("encoder", "final_encoder_layer_norm", False), "an encoder without its last norm"),
        (set_side("encoder", "heads", 2), "encoder and decoder with different heads (2 and 4)"),
        (set_side("decoder", "sliding_window", 8), "attention within a window"),
        (set_side("decoder", "num_experts", 2), "experts"),
        (set_side("decoder", "decoder_type", "rnn"), "decoders other than the Transformer's"),
        (set_side("decoder", "num_mtp_heads", 1), "prediction of several tokens"),
        (set_side("decoder", "layer_types", ["linear_attention"]), "layers of different kinds"),
        (set_model("architecture", "transformer_lm"), "models other than encoder-decoder Transformers"),
        (set_model("parallel_residual", True), "parallel residuals"),
        (set_model("ffn_layernorm", True), "norms before and behind each sublayer"),
        (set_model("query_norm", True), "norms of queries and keys"),
        (set_model("value_norm", True), "norms of values"),
        (set_model("q_gating", True), "gated queries"),
        (set_model("relative_positions_buckets", 32), "relative attention bias"),
        (set_model("add_estimator", True), "an estimator of quality"),
        (set_model("left_pad", True), "padding on the left"),
        (lambda config: config["training"].update(quant_type="awq_gemm"), "weights that are already quantized"),
        (lambda config: config.update(transforms=["huggingface_tokenize"]), "the transform huggingface_tokenize"),
        (lambda config: config.update(inference={"length_penalty": "wu"}), "the length penalty of GNMT"),
        (lambda config: config.update(inference={"top_p": 0.9}), "samples instead of a search"),
    ],
)
def test_unsupported_options_of_eole_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    config = eole_config(DEFAULT)
    change(config)
    assert words in refusal(write_eole(tmp_path, DEFAULT, seeded(DEFAULT), config))


def test_tensors_that_do_not_match_are_in_one_error(tmp_path: Path) -> None:
    content = onmt_content(DEFAULT, seeded(DEFAULT))
    model = content["model"]
    del model["encoder.transformer.1.self_attn.linear_keys.weight"]
    del model["decoder.embeddings.make_embedding.pe.pe"]
    model["decoder.transformer_layers.0.layer_norm_1.weight"] = torch.ones(5)
    model["encoder.layer_norm.bias"] = torch.full((32,), torch.nan)
    model["encoder.extra.weight"] = torch.ones(1)
    message = refusal(write_onmt(tmp_path, content))
    assert "encoder.transformer.1.self_attn.linear_keys.weight is missing" in message
    assert "decoder.embeddings.make_embedding.pe.pe is missing" in message
    assert "decoder.transformer_layers.0.layer_norm_1.weight has shape (5,), expected (32,)" in message
    assert "encoder.layer_norm.bias contains NaN or infinity" in message
    assert "encoder.extra.weight is unexpected" in message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heads": "four"}, "heads = 'four'"),
        ({"heads": 5}, "width 32 is not divisible by 5 heads"),
        ({"norm_eps": None}, "norm_eps = None"),
        ({"num_kv": 3}, "linear_keys.weight has shape"),
    ],
)
def test_invalid_settings_are_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    shape = replace(DEFAULT, key_heads=2)
    content = onmt_content(shape, seeded(shape))
    vars(content["opt"]).update(options)
    assert words in refusal(write_onmt(tmp_path, content))


ODD: list[Any] = [None, -1, "x", [[1]]]


def loads_or_is_refused(path: Path) -> None:
    with suppress(CheckpointError):
        load_checkpoint(path, "opennmt")


def test_odd_settings_of_opennmt_py_give_a_model_or_an_error(tmp_path: Path) -> None:
    content = onmt_content(DEFAULT, seeded(DEFAULT))
    options = vars(content["opt"])
    for name in (*options, "data", "quant_type", "multiquery"):
        for odd in ODD:
            content["opt"] = argparse.Namespace(**(options | {name: odd}))
            loads_or_is_refused(write_onmt(tmp_path, content))


def test_odd_settings_of_eole_give_a_model_or_an_error(tmp_path: Path) -> None:
    state = seeded(DEFAULT)
    parts = ["model", "transforms", "transforms_configs", "training", "inference", "share_vocab"]
    parts += [f"model.{name}" for name in ("embeddings", "encoder", "decoder", "heads", "share_embeddings")]
    parts += [f"model.embeddings.{name}" for name in ("position_encoding_type", "normalize", "position_shift")]
    parts += [f"model.decoder.{name}" for name in ("heads", "heads_kv", "head_dim", "attn_scaling", "norm_eps")]
    parts += [f"inference.{name}" for name in ("beam_size", "max_length", "optional_eos", "alpha", "length_penalty")]
    folder = write_eole(tmp_path, DEFAULT, state)
    for path in parts:
        for odd in ODD:
            config = eole_config(DEFAULT) | {"inference": {}}
            *outer, last = path.split(".")
            inside: dict[str, Any] = config
            for name in outer:
                inside = inside[name]
            inside[last] = odd
            (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
            loads_or_is_refused(folder)


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (self.command,)


@pytest.mark.parametrize("place", ["opt", "inside opt", "vocab", "extra"])
def test_a_hostile_file_runs_no_code(tmp_path: Path, place: str) -> None:
    trace = tmp_path / "trace"
    hostile = Hostile(f"touch {trace}")
    content = onmt_content(DEFAULT, seeded(DEFAULT))
    if place == "inside opt":
        content["opt"].data = {"corpus": hostile}
    else:
        content[place] = hostile
    path = write_onmt(tmp_path, content)
    assert "needs the class posix.system, and code from a file is never run" in refusal(path)
    detect_quietly(path)
    assert not trace.exists()
    torch.load(path, weights_only=False)
    assert trace.exists()  # it would have


def detect_quietly(path: Path) -> str:
    with suppress(CheckpointError):
        return detect(path)
    return ""


def test_settings_are_plain_values(tmp_path: Path) -> None:
    torch.save({"opt": argparse.Namespace(heads=4, names={"a"})}, tmp_path / "file.pt")
    found = read_pickled(tmp_path / "file.pt")["opt"]
    assert vars(found) == {"heads": 4, "names": {"a"}}
    assert not isinstance(found, argparse.Namespace)


@pytest.mark.parametrize("content", [b"", b"PK\3\4 nothing", b"\x80\x02]q\x00.", b"text"])
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.pt"
    path.write_bytes(content)
    assert "is broken" in refusal(path) or "is not a checkpoint of OpenNMT-py 3" in refusal(path)


def test_a_checkpoint_of_opennmt_py_2_is_refused_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("torchtext")
    field = type("Field", (), {"__module__": module.__name__})
    module.Field = field  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    content = onmt_content(DEFAULT, seeded(DEFAULT))
    content["vocab"] = {"src": field()}
    path = write_onmt(tmp_path, content)
    assert detect(path) == "opennmt"
    assert "was written by OpenNMT-py 2 or older; convert it with tools/convertv2_v3.py" in refusal(path)


def test_checkpoints_are_recognized(tmp_path: Path) -> None:
    state = seeded(DEFAULT)
    assert detect(write_onmt(tmp_path, onmt_content(DEFAULT, state))) == "opennmt"
    assert detect(write_eole(tmp_path / "eole", DEFAULT, state)) == "opennmt"
    others = {"weights.pt": state, "fairseq.pt": {"args": argparse.Namespace(arch="transformer"), "model": state}}
    for name, content in others.items():
        torch.save(content, tmp_path / name)
        assert detect_quietly(tmp_path / name) != "opennmt"


def test_a_folder_of_eole_without_weights_is_refused(tmp_path: Path) -> None:
    folder = write_eole(tmp_path, DEFAULT, seeded(DEFAULT))
    (folder / "model.00.safetensors").unlink()
    assert "has no model.*.safetensors" in refusal(folder)


def test_the_sentencepiece_model_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    content = with_options()
    content["vocab"]["src"] = content["vocab"]["tgt"] = words()
    write_pieces(tmp_path)
    assert "is not the SentencePiece model of the source vocabulary" in refusal(write_onmt(tmp_path, content))
