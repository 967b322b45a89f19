"""Load models in CTranslate2's format, and refuse those that are unsupported or broken."""

import random
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ctranslate2_model import Written, rounded, seeded, variants, vocabulary, write_folder, written
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor
from tiny_checkpoint import SENTENCES
from tolerances import BFLOAT16, FLOAT16, chain_rounding, sum_rounding

from seq2edge import Translator
from seq2edge.bundle.bundle import load_bundle
from seq2edge.config.architecture import Architecture
from seq2edge.errors import CheckpointError
from seq2edge.search.batch_decode import decode
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import detect, load_checkpoint
from seq2edge_export.loaders.ctranslate2.files import read_binary
from seq2edge_export.loaders.ctranslate2.load import build
from seq2edge_export.loaders.ctranslate2.weights import computed_positions
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.source_model import TorchEngine
from seq2edge_export.verify import verify

VARIANTS = variants()
OPUS, PRE = VARIANTS["opus"], VARIANTS["pre-norm"]
SMALL = replace(OPUS, source_vocabulary=9, target_vocabulary=9, width=8, heads=2, feed_forward=12, max_positions=6)


def logits(model: Transformer) -> torch.Tensor:
    ids = torch.Generator().manual_seed(1)
    most = min(model.architecture.source_vocabulary, model.architecture.target_vocabulary)
    source = torch.randint(0, most, (3, 9), generator=ids)
    mask = torch.arange(9) < torch.tensor([9, 5, 2])[:, None]
    with torch.inference_mode():
        return model(source, mask, torch.randint(0, most, (3, 7), generator=ids))


def refusal(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("shape", VARIANTS.values(), ids=VARIANTS)
def test_every_tensor_fills_its_parameter(tmp_path: Path, shape: Architecture) -> None:
    model = seeded(shape)
    folder = write_folder(tmp_path, written(model), {"layer_norm_epsilon": shape.norm_epsilon})
    found = load_checkpoint(folder).model
    assert found.architecture == shape
    assert torch.equal(logits(found), logits(model))
    for name, parameter in model.named_parameters():
        assert torch.equal(found.get_parameter(name), parameter), name


@pytest.mark.parametrize("quantization", ["float16", "bfloat16", "int16", "int8", "int8_float16"])
@pytest.mark.parametrize("variant", ["opus", "gated", "separate"])
def test_quantized_weights_are_dequantized(tmp_path: Path, variant: str, quantization: Any) -> None:
    model = seeded(VARIANTS[variant])
    found = load_checkpoint(write_folder(tmp_path, written(model, quantization))).model
    before = logits(model)
    rounded(model, quantization)
    for name, parameter in model.named_parameters():
        assert torch.equal(found.get_parameter(name), parameter), name
    assert not torch.equal(logits(found), before)
    # positions that a formula gives are in the file too, and there they are rounded once to half precision
    epsilon = {"bfloat16": BFLOAT16, "float16": FLOAT16, "int8_float16": FLOAT16}.get(quantization, 0.0)
    limit = chain_rounding(1, size=10, epsilon=epsilon)
    torch.testing.assert_close(logits(found), logits(model), atol=limit, rtol=0)


def test_a_linear_layer_may_have_no_bias(tmp_path: Path) -> None:
    model, content = seeded(OPUS), written(seeded(OPUS))
    for name in [name for name in content.variables if name.endswith("/bias") and "layer_1" in name]:
        del content.variables[name]
    with torch.no_grad():
        for layer in (model.encoder[1], model.decoder[1]):
            for name, parameter in layer.named_parameters():
                if name.endswith("bias") and "norm" not in name:
                    parameter.zero_()
    assert torch.equal(logits(load_checkpoint(write_folder(tmp_path, content)).model), logits(model))


def test_positions_that_are_not_stored_are_those_that_ctranslate2_computes(tmp_path: Path) -> None:
    content = written(seeded(OPUS))
    for side in ("encoder", "decoder"):
        del content.variables[f"{side}/position_encodings/encodings"]
    model = load_checkpoint(write_folder(tmp_path, content)).model
    assert (model.architecture.positions, model.architecture.max_positions) == ("learned", 1024)
    wave = 10_000 ** -(np.arange(16) / 15)  # the last wave is the longest, and counting begins with 1
    angles = np.arange(1, 1025)[:, None] * wave
    wanted = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    for embedding in (model.source_embedding, model.target_embedding):
        assert torch.equal(embedding.positions, computed_positions(32))
        limit = sum_rounding(2, 1024.0)  # frequencies and angles up to 1024 are rounded
        np.testing.assert_allclose(embedding.positions.detach().numpy(), wanted, atol=limit)


@pytest.mark.parametrize("quantization", ["float32", "int16", "int8"])
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_settings_of_old_files_are_read_from_variables(tmp_path: Path, version: int, quantization: Any) -> None:
    model = seeded(replace(PRE, heads=8, tied_output=False, joint_vocabulary=False, zero_start=False))
    content = written(model, quantization)
    content.version, content.spec, content.revision = version, "TransformerBase", 2
    moved = ("num_heads", "pre_norm", "activation", "alignment_layer", "alignment_heads", "embeddings_merge")
    for name in [name for name in content.variables if name.rpartition("/")[2] in moved]:
        del content.variables[name]
    content.variables["encoder/embeddings/weight"] = content.variables.pop("encoder/embeddings_0/weight")
    if quantization != "float32":
        scale = content.variables.pop("encoder/embeddings_0/weight_scale")
        content.variables["encoder/embeddings/weight_scale"] = scale
    content.variables |= {"with_source_eos": np.int8(1), "with_target_bos": np.int8(0)}
    folder = write_folder(tmp_path, content)
    (folder / "config.json").unlink()
    found = load_checkpoint(folder)
    assert torch.equal(logits(found.model), logits(rounded(model, quantization)))
    assert (found.tokenization.source_eos, found.generation.decoder_start_token_id) == (True, 0)


def test_int16_weights_without_scales_have_the_old_scale(tmp_path: Path) -> None:
    content = written(seeded(OPUS), "int16")
    name = "encoder/layer_0/ffn/linear_0/weight"
    del content.variables[f"{name}_scale"]
    found = load_checkpoint(write_folder(tmp_path, content)).model
    wanted = content.variables[name].astype(np.float32) * (np.float32(1) / np.float32(1000))
    np.testing.assert_array_equal(found.encoder[0].feed_forward.inner.weight.detach().numpy(), wanted)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write an Argos package: a zip file with a model folder and other files."""
    folder = tmp_path_factory.mktemp("argos") / "translate-en_ne-1_0"
    write_folder(folder / "model", written(seeded(OPUS), "int8"))
    (folder / "model" / "sentencepiece.model").rename(folder / "sentencepiece.model")
    (folder / "metadata.json").write_text(
        '{"from_code": "en", "to_code": "ne", "argos_version": "1.9"}', encoding="utf-8"
    )
    (folder / "README.md").write_text("# English - Nonsense\n\nBy nobody,  CC0\n", encoding="utf-8")
    (folder / "stanza").mkdir()
    (folder / "stanza" / "other.model").write_bytes(b"something else")
    packed = folder.with_suffix(".argosmodel")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder.parent).as_posix())
    return packed


def test_the_bundle_of_a_package_translates_as_the_model(package: Path, tmp_path: Path) -> None:
    bundle = export_bundle(package, tmp_path / "bundle")
    manifest = bundle.manifest
    assert (manifest.family, manifest.languages.source, manifest.languages.target) == ("ctranslate2", "en", "ne")
    assert manifest.rights.attribution == "# English - Nonsense By nobody, CC0"
    original = load_checkpoint(package.with_suffix("")).source_model()
    assert verify(load_bundle(bundle.folder), original, texts=SENTENCES[:4]).passed
    texts = SENTENCES[::50]
    results = Translator(bundle.folder, threads=1).translate(texts, num_beams=1)
    sources = [[vocabulary()[1].index(piece) for piece in pieces] + [0] for pieces in cut(texts)]
    engine, options = TorchEngine(original.graphs, pad=0), replace(original.generation, num_beams=1)
    wanted = [list(found[0].tokens) for found in decode(engine, sources, options)]
    assert [list(result.tokens) for result in results] == wanted
    assert any(len(tokens) < 256 for tokens in wanted)
    for result in results:
        pieces = [vocabulary()[1][number] for number in result.tokens if number]
        assert result.text == SentencePieceProcessor(model_proto=vocabulary()[0]).decode(pieces)


def cut(texts: list[str]) -> list[list[str]]:
    pieces: list[list[str]] = SentencePieceProcessor(model_proto=vocabulary()[0]).encode(texts, out_type=str)
    return pieces


def test_folders_and_packages_are_recognized(package: Path) -> None:
    unpacked = package.with_suffix("")
    assert {detect(path) for path in (package, unpacked, unpacked / "model")} == {"ctranslate2"}


@pytest.mark.parametrize("folder", ["../..", "/tmp", "a/b/c"])
def test_a_package_cannot_write_elsewhere(tmp_path: Path, folder: str) -> None:
    packed = tmp_path / "evil.argosmodel"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"{folder}/evil.model", b"evil")
    assert "holds 0 files named model/model.bin" in refusal(packed)
    assert not list(tmp_path.parent.glob("**/evil.model"))
    assert not Path("/tmp/evil.model").exists()


@pytest.mark.parametrize("content", [b"", b"PK\3\4 nothing", b"{}"])
def test_a_package_that_is_not_a_zip_file_is_refused(tmp_path: Path, content: bytes) -> None:
    packed = tmp_path / "broken.argosmodel"
    packed.write_bytes(content)
    assert "cannot be unpacked as an Argos package, which is a zip file" in refusal(packed)


def test_a_damaged_package_is_refused(package: Path, tmp_path: Path) -> None:
    content = bytearray(package.read_bytes())
    content[len(content) // 2] ^= 255
    packed = tmp_path / "damaged.argosmodel"
    packed.write_bytes(content)
    assert "cannot be unpacked as an Argos package" in refusal(packed)


def test_all_unsupported_features_are_in_one_error(tmp_path: Path) -> None:
    content = written(seeded(OPUS))
    layers = [f"{side}/layer_{number}" for side in ("encoder", "decoder") for number in (0, 1)]
    for layer in layers:
        content.variables |= {
            f"{layer}/self_attention/relative_position_keys": np.zeros((5, 8), np.float32),
            f"{layer}/self_attention/rotary_dim": np.int32(8),
            f"{layer}/self_attention/rotary_base": np.float32(10000),
            f"{layer}/self_attention/num_heads_kv": np.int32(1),
            f"{layer}/self_attention/q_norm/gamma": np.zeros(8, np.float32),
            f"{layer}/self_attention/novelty": np.int8(1),
        }
        del content.variables[f"{layer}/ffn/layer_norm/beta"]
    content.variables |= {
        "encoder/embeddings_1/weight": np.zeros((4, 4), np.float32),
        "encoder/activation": np.int8(5),
        "decoder/num_heads": np.int16(2),
        "decoder/alibi": np.int8(1),
        "decoder/project_in/weight": np.zeros((4, 4), np.float32),
        "decoder/scale_outputs": np.float32(0.5),
        "encoder/multi_query_attention": np.int8(1),
    }
    tokens = [*vocabulary()[1], *(f"__{first}{second}__" for first in "ab" for second in "abcdef")]
    folder = write_folder(tmp_path, content, {"decoder_start_token": None}, tokens={"shared_vocabulary.json": tokens})
    message = refusal(folder)
    parts = message.removeprefix(f"{folder} is not supported by the family ctranslate2: ").split("; ")
    assert sorted(parts) == sorted(
        [
            "encoder and decoder with different heads (4 and 2)",
            "encoder and decoder with different activation (5 and 2)",
            "the activation tanh",
            "ALiBi positions",
            "multi-query attention",
            "relative positions",
            "rotary positions",
            "fewer heads for keys and values",
            "norms of queries and keys",
            "encoder/layer_N/self_attention/novelty",
            "decoder/layer_N/self_attention/novelty",
            "RMS norms",
            "several source features",
            "projections around the decoder",
            "scaled outputs",
            "a start token that changes from text to text (decoder_start_token is null)",
            "language codes in the text (a model for many languages)",
        ]
    )


def test_every_tensor_that_does_not_match_is_named(tmp_path: Path) -> None:
    content = written(seeded(OPUS))
    del content.variables["decoder/layer_1/attention/linear_1/weight"]
    content.variables["encoder/layer_0/ffn/linear_1/weight"] = np.zeros((32, 47), np.float32)
    content.variables["encoder/layer_1/ffn/linear_1/bias"] = np.zeros(32, np.int32)
    content.variables["decoder/layer_0/ffn/layer_norm/gamma"][3] = np.nan
    content.variables["encoder/layer_0/attention/linear_0/bias"] = np.zeros(32, np.float32)
    message = refusal(write_folder(tmp_path, content))
    for part in (
        "decoder/layer_1/attention/linear_1/weight is missing",
        "encoder/layer_0/ffn/linear_1/weight has shape (32, 47), expected (32, 48)",
        "encoder/layer_1/ffn/linear_1/bias has dtype torch.int32",
        "decoder/layer_0/ffn/layer_norm/gamma contains NaN or infinity",
        "encoder/layer_0/attention/linear_0/bias is unexpected",
    ):
        assert part in message
    assert message.count(";") == 4


def without(name: str) -> Callable[[Written], Any]:
    return lambda content: content.variables.pop(name)


def with_value(name: str, value: Any) -> Callable[[Written], Any]:
    return lambda content: content.variables.update({name: value})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("decoder/embeddings/weight"), "cannot be an alias of"),
        (without("encoder/layer_0/ffn/linear_0/weight"), "no matrix named encoder/layer_0/ffn/linear_0/weight"),
        (with_value("encoder/num_heads", np.int16(5)), "different heads"),
        (with_value("encoder/num_heads", np.float32(np.nan)), "encoder/num_heads in model.bin has shape () or is not"),
        (with_value("encoder/pre_norm", np.zeros(3, np.int8)), "encoder/pre_norm in model.bin has shape (3,)"),
        (
            with_value("encoder/position_encodings/encodings", np.zeros((9, 8), np.float32)),
            "expected (positions, 32)",
        ),
        (with_value("encoder/layer_0/ffn/linear_1/weight", np.zeros((32, 48), np.int8)), "_scale is missing"),
        (lambda content: setattr(content, "version", 7), "begins with version 7, expected 2 to 6"),
        (lambda content: setattr(content, "revision", 8), "holds a 'TransformerSpec' of revision 8"),
        (lambda content: setattr(content, "spec", "WhisperSpec"), "holds a 'WhisperSpec' of revision 7"),
    ],
)
def test_a_file_that_is_not_a_transformer_is_refused(
    tmp_path: Path, change: Callable[[Written], Any], words: str
) -> None:
    content = written(seeded(OPUS))
    change(content)
    assert words in refusal(write_folder(tmp_path, content))


def test_heads_that_do_not_divide_the_width_are_refused(tmp_path: Path) -> None:
    content = written(seeded(OPUS))
    content.variables |= {f"{side}/num_heads": np.int16(5) for side in ("encoder", "decoder")}
    assert "width 32 is not divisible by 5 heads" in refusal(write_folder(tmp_path, content))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"unk_token": 3}, "tokens should be strings"),
        ({"add_source_eos": "yes"}, "add_source_* true or false"),
        ({"layer_norm_epsilon": "small"}, "layer_norm_epsilon 'small', which is not a number"),
        ({"layer_norm_epsilon": 2}, "norm_epsilon is 2, but must be between 0 and 1"),
        ({"eos_token": "<end>"}, "has no '<end>', which ends every output"),
        ({"unk_token": "<unknown>"}, "unknown and padding tokens have the ids 0, 0, 318 and 0, but the model has 318"),
        ({"add_source_bos": True}, "'<s>' has the id 1 in shared_vocabulary.json, expected 0"),
    ],
)
def test_invalid_settings_are_refused(tmp_path: Path, config: dict[str, Any], words: str) -> None:
    assert words in refusal(write_folder(tmp_path, written(seeded(OPUS)), config))


@pytest.mark.parametrize("content", ["", "[1]", "[" * 100_000, '{"a": \udcff}'])
def test_a_config_that_is_not_an_object_is_refused(tmp_path: Path, content: str) -> None:
    folder = write_folder(tmp_path, written(seeded(OPUS)))
    (folder / "config.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert "config.json" in refusal(folder)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("config.json", "config.json cannot be read: No such file"),
        ("shared_vocabulary.json", "has no vocabulary: expected shared_vocabulary.json (or .txt)"),
        ("sentencepiece.model", "has no SentencePiece model; copy the one that the model was trained with"),
    ],
)
def test_a_file_that_is_missing_is_named(tmp_path: Path, name: str, words: str) -> None:
    folder = write_folder(tmp_path, written(seeded(OPUS)))
    (folder / name).unlink()
    assert words in refusal(folder)


@pytest.mark.parametrize(
    ("start", "adds", "wanted"),
    [("<s>", False, False), ("<s>", True, True), ("</s>", False, True), ("<pad>", False, True)],
)
def test_sources_end_with_the_end_token_if_the_model_or_its_tokenizer_adds_it(
    tmp_path: Path, start: str, adds: bool, wanted: bool
) -> None:
    config = {"decoder_start_token": start, "add_source_eos": adds}
    found = load_checkpoint(write_folder(tmp_path, written(seeded(OPUS)), config))
    assert found.tokenization.source_eos == wanted


def test_each_side_can_have_a_text_vocabulary_and_a_sentencepiece_model(tmp_path: Path) -> None:
    model, joint = vocabulary()
    source = ["<blank>", "<unk>", *joint[2:]]  # its id 0 is another mark: no end mark in sources
    shape = replace(PRE, joint_vocabulary=False, tied_output=False)
    tokens = {"source_vocabulary.txt": source, "target_vocabulary.json": joint}
    config = {"decoder_start_token": joint[5], "add_source_eos": False}
    folder = write_folder(tmp_path, written(seeded(shape)), config, tokens=tokens)
    (folder / "sentencepiece.model").rename(folder / "src.spm.model")
    (folder / "tgt.spm.model").write_bytes(model)
    found = load_checkpoint(folder)
    assert (found.config.tokens.bos, found.generation.decoder_start_token_id) == (5, 5)
    assert set(found.tokenizer_files) == {
        "source.tokenizer.txt",
        "target.tokenizer.json",
        "source.codes.model",
        "target.codes.model",
    }
    tokenizer = found.source_model().tokenizer()
    assert tokenizer.encode(SENTENCES[:1]) == [[source.index(piece) for piece in cut(SENTENCES[:1])[0]]]
    (folder / "src.spm.model").rename(folder / "other.model")
    assert "keep one SentencePiece model, or source.spm and target.spm" in refusal(folder)


def test_an_end_token_with_two_ids_is_refused(tmp_path: Path) -> None:
    joint = vocabulary()[1]
    swapped = [joint[2], joint[1], joint[0], *joint[3:]]
    tokens = {"source_vocabulary.json": swapped, "target_vocabulary.json": joint}
    message = refusal(write_folder(tmp_path, written(seeded(OPUS)), tokens=tokens))
    assert "'</s>' has the id 2 in source_vocabulary.json, expected 0 as in target_vocabulary.json" in message


def test_the_sentencepiece_model_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    tokens = ["</s>", "<unk>", *(f"word{number}" for number in range(316))]
    folder = write_folder(tmp_path, written(seeded(OPUS)), tokens={"shared_vocabulary.json": tokens})
    assert "is not the SentencePiece model of shared_vocabulary.json: 318 of its 320 pieces" in refusal(folder)


@cache
def small() -> bytes:
    return written(seeded(SMALL), "int8").content()


def outcome(content: bytes, path: Path) -> Transformer | CheckpointError:
    """Load a file; any error except CheckpointError fails the test."""
    path.write_bytes(content)
    try:
        return build(read_binary(path), 1e-5)
    except CheckpointError as error:
        return error


def test_a_file_truncated_anywhere_is_refused(tmp_path: Path) -> None:
    assert isinstance(outcome(small(), tmp_path / "whole"), Transformer)
    for length in {*range(200), *random.Random(0).sample(range(len(small())), 300), len(small()) - 1}:
        assert isinstance(outcome(small()[:length], tmp_path / "cut"), CheckpointError), length
    assert "1 bytes are left at its end" in str(outcome(small() + b"x", tmp_path / "longer"))


@example(changes=[(0.9319973319924366, b"\x00")])  # 101 axes
@settings(max_examples=150, deadline=None)
@given(changes=st.lists(st.tuples(st.floats(0, 0.999), st.binary(min_size=1, max_size=6)), min_size=1, max_size=4))
def test_a_file_damaged_anywhere_gives_a_model_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[float, bytes]]
) -> None:
    content = bytearray(small())
    for share, new in changes:
        place = int(share * len(small()))
        content[place : place + len(new)] = new
    found = outcome(bytes(content), tmp_path_factory.getbasetemp() / "damaged")
    assert isinstance(found, Transformer) or "\n" not in str(found)


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=300), version=st.integers(0, 8))
def test_anything_else_is_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes, version: int) -> None:
    head = bytes([version, 0, 0, 0, 16, 0]) + b"TransformerSpec\0" + bytes([7, 0, 0, 0])
    path = tmp_path_factory.getbasetemp() / "garbage"
    assert isinstance(outcome(content, path), CheckpointError)
    assert isinstance(outcome(head + content, path), CheckpointError)


@pytest.mark.parametrize("sizes", [(2**32 - 1,) * 4, (2**31, 2**31), (2**32 - 1, 0, 4)])
def test_sizes_larger_than_the_file_allocate_no_memory(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    content = bytearray(Written({"x": np.zeros((0,) * len(sizes), np.float32)}).content())
    place = content.index(b"x\0") + 3
    content[place : place + 4 * len(sizes)] = np.array(sizes, np.uint32).tobytes()
    assert isinstance(outcome(bytes(content), tmp_path / "large"), CheckpointError)


def test_tensors_of_a_huge_model_are_refused_before_it_is_allocated(tmp_path: Path) -> None:
    content = written(seeded(SMALL))
    width = 10**6  # weights of attention would take 4 TB each
    content.variables |= {
        "decoder/embeddings/weight": np.zeros((1, width), np.float32),
        "encoder/layer_0/ffn/linear_0/weight": np.zeros((1, width), np.float32),
    }
    for side in ("encoder", "decoder"):
        del content.variables[f"{side}/position_encodings/encodings"]  # a computed table would take 4 GB
    error = outcome(content.content(), tmp_path / "giant")
    assert "width is 1000000, but must be at least 1 and at most 65,536" in str(error)


def test_the_vocabulary_may_not_be_larger_than_the_model(tmp_path: Path) -> None:
    tokens = {"shared_vocabulary.json": [*vocabulary()[1], "more"]}
    folder = write_folder(tmp_path / "model", written(seeded(OPUS)), tokens=tokens)
    with pytest.raises(CheckpointError, match="source vocabulary has 319 tokens, but the model has 318"):
        export_bundle(folder, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()
