"""Load Marian's own files, and refuse those that are unsupported or broken."""

import json
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import ctranslate2_model
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from marian_model import (
    APART,
    EOS,
    PRE,
    STUDENT,
    TEACHER,
    UNK,
    VARIANTS,
    Marian,
    Reference,
    bin_of,
    is_rounded,
    left_of,
    made,
    packed,
    pieces,
    write_folder,
    write_npz,
    yaml_of,
)
from tolerances import network_rounding

from seq2edge.errors import CheckpointError
from seq2edge_export.loaders import detect, load_checkpoint
from seq2edge_export.loaders.marian.files import read_binary
from seq2edge_export.model.transformer import Transformer

SIZE = 5  # of the logits
SOURCE, TARGET = [5, 7, 9, 30, 2, EOS], [4, 8, 15, 16, 23, 42, 8]


def logits(model: Transformer) -> Any:
    source = torch.tensor([SOURCE])
    with torch.inference_mode():
        return model(source, source > -1, torch.tensor([[EOS, *TARGET]]))[0].numpy()


def assert_same_logits(found: Transformer, wanted: Any) -> None:
    np.testing.assert_allclose(logits(found), wanted, rtol=0, atol=network_rounding(found.architecture, SIZE))


def refusal(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path, "marian-native")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def npz_folder(folder: Path, model: Marian) -> Path:
    folder.mkdir(exist_ok=True)
    write_npz(folder / "model.npz", model)
    (folder / "vocab.spm").write_bytes(pieces())
    return folder


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_every_kind_of_model_computes_what_marian_defines(tmp_path: Path, config: dict[str, Any]) -> None:
    model = made(config)
    found = load_checkpoint(npz_folder(tmp_path, model)).model
    assert_same_logits(found, Reference(model).logits(SOURCE, TARGET))


def test_an_old_output_layer_is_transposed(tmp_path: Path) -> None:
    model = made(TEACHER | APART)
    wanted = Reference(model).logits(SOURCE, TARGET)
    model.tensors["decoder_ff_logit_out_W"] = model.tensors.pop("decoder_ff_logit_out_Wt").T.copy()
    found = load_checkpoint(npz_folder(tmp_path, model)).model
    assert_same_logits(found, wanted)


@pytest.mark.parametrize("config", [STUDENT, TEACHER | APART], ids=["student", "all apart"])
@pytest.mark.parametrize(
    "form",
    ["float32", "float16", "intgemm8", "bergamot8", "ssse3", "avx2", "avx512", "vnni", "intgemm16", "avx2_16"],
)
def test_every_format_is_dequantized(tmp_path: Path, config: dict[str, Any], form: Any) -> None:
    model = made(config)
    found = load_checkpoint(write_folder(tmp_path, model, form)).model
    kept = Marian(model.config, {name: left_of(name, one, form) for name, one in model.tensors.items()})
    assert any(is_rounded(name, form) for name in model.tensors) == ("float" not in form)
    for theirs, ours in (
        ("encoder_l2_ffn_W1", "encoder.1.feed_forward.inner"),
        ("decoder_l1_context_Wv", "decoder.0.cross.value"),
    ):
        assert torch.equal(found.get_parameter(f"{ours}.weight"), torch.from_numpy(kept.tensors[theirs].T))
    assert_same_logits(found, Reference(kept).logits(SOURCE, TARGET))


def test_positions_are_marians_up_to_its_rounding(tmp_path: Path) -> None:
    table = load_checkpoint(npz_folder(tmp_path, made())).model.target_embedding.positions
    assert table is not None
    waves = np.float32(32)
    step = np.log(np.float32(10000)) / (waves - 1)
    angles = np.arange(512, dtype=np.float32)[:, None] * np.exp(np.arange(32, dtype=np.float32) * -step)
    theirs = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    # Marian computes angles in float32: at position p they are off by some p * 6e-8
    assert np.abs(table.numpy() - theirs).max() < 512 * 2.5e-7
    assert np.abs(table.numpy() - theirs)[:32].max() < 32 * 2.5e-7


class TestFiles:
    def test_files_and_folders_are_recognized(self, tmp_path: Path) -> None:
        folder, archive = write_folder(tmp_path / "bin"), npz_folder(tmp_path / "npz", made())
        model = folder / "model.xx.intgemm.alphas.bin"
        assert {detect(path) for path in (folder, model, archive, archive / "model.npz")} == {"marian-native"}
        model.rename(folder / "model.bin")  # a name that CTranslate2 gives too
        assert detect(folder) == "marian-native"

    def test_other_models_are_not_recognized_as_marian(self, tmp_path: Path) -> None:
        opus = ctranslate2_model.opus_like()
        content = ctranslate2_model.written(ctranslate2_model.seeded(opus))
        assert detect(ctranslate2_model.write_folder(tmp_path / "other", content)) == "ctranslate2"
        np.savez(tmp_path / "plain.npz", a=np.zeros(3))
        torch.save({"a": torch.zeros(3)}, tmp_path / "weights.bin")
        for name in ("plain.npz", "weights.bin", "other/shared_vocabulary.json"):
            with pytest.raises(CheckpointError, match="a model of Marian"):
                detect(tmp_path / name)

    def test_a_student_needs_no_search_settings(self, tmp_path: Path) -> None:
        found = load_checkpoint(write_folder(tmp_path, form="bergamot8"))
        assert (found.generation.num_beams, found.generation.length_penalty) == (1, 1.0)
        assert (found.generation.max_new_tokens, found.generation.suppress_tokens) == (256, (UNK,))
        assert (found.config.tokens.eos, found.config.tokens.bos, found.config.tokens.unk) == (EOS, EOS, UNK)
        assert found.tokenization.kind == "sentencepiece"

    def test_search_settings_are_read(self, tmp_path: Path) -> None:
        search = "beam-size: 6\nnormalize: 0.6\nword-penalty: 0\nallow-unk: true\nshortlist:\n  - lex.bin\n  - false\n"
        found = load_checkpoint(write_folder(tmp_path, search=search)).generation
        assert (found.num_beams, found.length_penalty, found.suppress_tokens) == (6, 0.6, None)

    def test_paths_of_another_machine_are_found_by_their_names(self, tmp_path: Path) -> None:
        folder = npz_folder(tmp_path / "m", made())
        write_npz(folder / "other.npz", made())
        (folder / "vocab.spm").rename(folder / "deen.spm")
        text = "relative-paths: false\nmodels:\n  - /home/x/model.npz\nvocabs:\n  - /x/deen.spm\n  - C:\\x\\deen.spm\n"
        (folder / "decoder.yml").write_text(text, encoding="utf-8")
        assert load_checkpoint(folder).tokenizer_files == {"tokenizer.spm": folder / "deen.spm"}
        (folder / "model.npz").unlink()
        assert "should hold one model of Marian (.npz or .bin), but there is model.npz" in refusal(folder)
        (folder / "decoder.yml").write_text("models: [a.npz, b.npz]\n", encoding="utf-8")
        assert "an ensemble of 2 models; name the file of one of them" in refusal(folder)
        (folder / "decoder.yml").write_text("models: [other.npz]\nvocabs: [../x.spm, x.spm]\n", encoding="utf-8")
        assert f"{folder / 'x.spm'} is named as a vocabulary, but does not exist" in refusal(folder)

    def test_each_side_may_have_its_own_pieces(self, tmp_path: Path) -> None:
        folder = npz_folder(tmp_path, made(TEACHER | APART))
        (folder / "vocab.spm").unlink()
        assert "has no vocabulary" in refusal(folder)
        (folder / "srcvocab.xx.spm").write_bytes(pieces(60))
        (folder / "trgvocab.xx.spm").write_bytes(pieces())
        found = load_checkpoint(folder)
        assert {name: path.name for name, path in found.tokenizer_files.items()} == {
            "source.tokenizer.spm": "srcvocab.xx.spm",
            "target.tokenizer.spm": "trgvocab.xx.spm",
        }

    def test_a_vocabulary_that_is_too_large_is_refused(self, tmp_path: Path) -> None:
        folder = npz_folder(tmp_path, made())
        (folder / "vocab.spm").write_bytes(pieces(66))
        assert "vocab.spm have 66 and 66 tokens, but the model has 64 and 64" in refusal(folder)


class TestLists:
    WORDS = ("</s>", "<unk>", "yes", "no", "null", "~", "1", "1.5", "0x10", "the@@", "'", '"', ":", "- ", "▁a", "ü")

    def folder(self, folder: Path, words: dict[str, int], name: str = "vocab.yml") -> Path:
        npz_folder(folder, made())
        (folder / "vocab.spm").unlink()
        lines = [f"{json.dumps(word, ensure_ascii=False)}: {number}\n" for word, number in words.items()]
        if name.endswith(".yml"):  # some as they are, where YAML would take them for something else
            lines = [
                line.replace('"', "") if line[1:-5] in ("yes", "no", "null", "1", "1.5") else line for line in lines
            ]
        text = "".join(lines) if name.endswith(".yml") else json.dumps(words)
        (folder / name).write_text(text, encoding="utf-8")
        return folder

    @pytest.mark.parametrize("name", ["vocab.yml", "opus.vocab.yml", "vocab.json"])
    def test_words_of_a_token_list_are_split_at_spaces(self, tmp_path: Path, name: str) -> None:
        words = {word: number for number, word in enumerate(self.WORDS)}
        original = load_checkpoint(self.folder(tmp_path, words, name)).source_model()
        assert original.tokenization.kind == "words"
        assert original.tokenizer().encode(["yes no null ~ 1 1.5 0x10 other"]) == [[2, 3, 4, 5, 6, 7, 8, UNK, EOS]]
        assert original.tokenizer().decode([[9, 12, 15, EOS]]) == ["the@@ : ü"]

    def test_a_token_list_is_tokenized_with_sentencepiece(self, tmp_path: Path) -> None:
        """As in OPUS-MT, which has token lists and SentencePiece models."""
        words = {"</s>": 0, "<unk>": 1, "▁the": 2, "▁old": 3, "▁": 4, "d": 5}
        folder = self.folder(tmp_path, words)
        for side in ("source", "target"):
            (folder / f"{side}.spm").write_bytes(pieces())
        original = load_checkpoint(folder).source_model()
        assert original.tokenization.kind == "pieces"
        assert original.tokenizer().encode(["the old"])[0][-1] == EOS
        assert original.tokenizer().decode([[2, UNK, 3, 5, EOS]]) == ["the oldd"]

    def test_special_tokens_can_have_the_names_of_nematus(self, tmp_path: Path) -> None:
        found = load_checkpoint(self.folder(tmp_path, {"eos": 0, "UNK": 1, "a": 2, "</s>": 3})).config.tokens
        assert (found.eos, found.unk) == (0, 1)

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ({"a": 0, "b": 1}, "has no '</s>', which Marian needs"),
            ({"</s>": 0, "<unk>": 1, "b": 1}, "every token should have an id of its own"),
            ({"</s>": 0, "<unk>": 1, "b": "x"}, "it should map every token to its id"),
            ({"</s>": 0, "<unk>": 1, "b": 64}, "have 65 and 65 tokens, but the model has 64 and 64"),
        ],
    )
    def test_an_invalid_token_list_is_refused(self, tmp_path: Path, words: dict[str, Any], message: str) -> None:
        assert message in refusal(self.folder(tmp_path, words))


REFUSED = {
    "type": ("s2s", "a model of the type 's2s'"),
    "transformer-decoder-autoreg": ("average-attention", "transformer-decoder-autoreg 'average-attention'"),
    "transformer-ffn-depth": (3, "feed-forward of another depth than 2"),
    "transformer-ffn-activation": ("tanh", "the activation 'tanh'"),
    "transformer-decoder-dim-ffn": (96, "encoder and decoder with different feed-forward widths"),
    "transformer-postprocess": ("dhn", "sublayers with transformer-preprocess '' and transformer-postprocess 'hn'"),
    "transformer-postprocess-top": (
        "an",
        "transformer-postprocess-emb '' and transformer-postprocess-top 'an'",
    ),
    "transformer-pool": (True, "pooling instead of cross attention"),
    "transformer-attention-mask": ("alibi", "ALiBi positions"),
    "transformer-heads": ("many", "transformer-heads = 'many', which is invalid"),
    "transformer-novelty": ("on", "transformer-novelty = 'on', which is an unknown setting"),
    "right-left": (True, "outputs from right to left"),
    "ulr": (True, "universal language representations"),
    "lemma-dim-emb": (64, "factored vocabularies"),
    "input-types": (["class"], "inputs other than text (input-types)"),
    "dim-vocabs": ([9, 9, 9], "3 vocabularies (dim-vocabs) instead of a source and a target"),
}


class TestRefusals:
    def test_all_unsupported_features_are_in_one_error(self, tmp_path: Path) -> None:
        model = made(TEACHER)
        model.config |= {name: value for name, (value, _) in REFUSED.items()}
        model.tensors["Wpos"] = np.zeros((10, 64), np.float32)
        folder = npz_folder(tmp_path, model)
        (folder / "decoder.yml").write_text("beam-size: 4\nword-penalty: 0.5\nmodels: [model.npz]\n", encoding="utf-8")
        start = f"{folder / 'model.npz'} is not supported by the family marian-native: "
        parts = refusal(folder).removeprefix(start).split("; ")
        assert sorted(parts) == sorted(
            [
                *(words for _, words in REFUSED.values()),
                "a word penalty in the search (set word-penalty to 0 to do without)",
                "trained positions (Wpos), which Marian's search does not count",
            ]
        )

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"dec-cell": "gru"}, "a decoder cell of the type 'gru'"),
            ({"layer-normalization": True}, "layer normalization inside the decoder cell"),
            ({"transformer-rnn-projection": True}, "a projection behind the decoder cell"),
            (PRE | {"version": "v1.10.24 x"}, "norms before the sublayers from Marian before 1.11"),
            (PRE | {"version": "unknown"}, "norms before the sublayers from Marian before 1.11"),
            ({"transformer-postprocess-top": "r"}, "layer norms and RMS norms in one model"),
            ({"transformer-tied-layers": [2, 1]}, "transformer-tied-layers = [2, 1] for 2 layers"),
            ({"transformer-heads": 3}, "width 64 is not divisible by 3 heads"),
            ({"enc-depth": 999999999}, "should have 1,000,000,001 layers, but holds only"),
            ({"dec-depth": 999999999}, "should have 1,000,000,001 layers, but holds only"),
            ({"dim-emb": 999999996}, "width is 999999996, but must be at least 1 and at most 65,536"),
        ],
    )
    def test_an_unsupported_setting_is_refused(self, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        model = made()
        model.config |= change
        assert message in refusal(npz_folder(tmp_path, model))

    def test_every_tensor_that_does_not_match_is_named(self, tmp_path: Path) -> None:
        model = made()
        del model.tensors["decoder_l2_rnn_bf"]
        model.tensors["encoder_l1_ffn_W1"] = model.tensors["encoder_l1_ffn_W1"][:, :-1]
        model.tensors["encoder_l1_self_bq"][0, 3] = np.inf
        model.tensors["encoder_l9_novelty"] = np.zeros((2, 2), np.float32)
        message = refusal(npz_folder(tmp_path, model))
        for words in (
            "decoder_l2_rnn_bf is missing",
            "encoder_l1_ffn_W1 has shape (127, 64), expected (128, 64)",
            "encoder_l1_self_bq contains NaN or infinity",
            "encoder_l9_novelty is unexpected",
        ):
            assert words in message

    def test_packed_weights_are_refused(self, tmp_path: Path) -> None:
        text = yaml_of(STUDENT).encode()
        items = [("Wemb", 0x1801, (64, 64), bytes(4096)), ("a_W", 0x7701, (1, 4), bytes(16))]
        folder = write_folder(tmp_path)
        content = packed([*items, ("special:model.yml", 0x101, (len(text),), text)])
        (folder / "model.xx.intgemm.alphas.bin").write_bytes(content)
        message = refusal(folder)
        assert "weights packed by FBGEMM (packed8avx2)" in message
        assert "weights of the type 0x7701" in message


class TestHostileFiles:
    """Any content of a file gives an error quickly, and no code is run."""

    def binary(self, folder: Path, content: bytes) -> Path:
        write_folder(folder)
        (folder / "model.xx.intgemm.alphas.bin").write_bytes(content)
        return folder / "model.xx.intgemm.alphas.bin"

    @pytest.mark.parametrize(
        ("place", "value", "message"),
        [
            (0, 2, "begins with version 2, expected 1"),
            (8, 2**60, "bytes at byte 16, but"),
            (8, 1, "is broken"),
            (16, 2**63, "are left; copy"),
            (16, 0, "expected a name at byte"),
            (32, 2**61, "are left; copy"),
            (32, 0, "expected a shape at byte"),
            (40, 2**62, "are left; copy"),
            (40, 16, "is broken"),
        ],
    )
    def test_invalid_lengths_are_refused(self, tmp_path: Path, place: int, value: int, message: str) -> None:
        content = bytearray(bin_of(made(), "bergamot8"))
        content[place : place + 8] = struct.pack("<Q", value)
        assert message in refusal(self.binary(tmp_path, bytes(content)))

    @pytest.mark.parametrize("kept", [0, 4, 15, 17, 500, 5000, 60_000, -1])
    def test_a_truncated_file_is_refused(self, tmp_path: Path, kept: int) -> None:
        assert refusal(self.binary(tmp_path, bin_of(made())[:kept]))

    def test_a_file_with_trailing_bytes_is_refused(self, tmp_path: Path) -> None:
        assert "3 bytes are left at its end" in refusal(self.binary(tmp_path, bin_of(made()) + b"abc"))

    @pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
    def test_an_invalid_scale_is_refused(self, tmp_path: Path, scale: float) -> None:
        content = bytes(64 * 64) + struct.pack("<f", scale)
        text = yaml_of(STUDENT).encode()
        items = [("Wemb", 0x4101, (64, 64), content), ("special:model.yml", 0x101, (len(text),), text)]
        assert "'Wemb' has integers of shape (64, 64)" in refusal(self.binary(tmp_path, packed(items)))

    def test_a_prepared_matrix_of_another_size_is_refused(self, tmp_path: Path) -> None:
        content = bytes(64 * 60) + struct.pack("<f", 1.0)
        text = yaml_of(STUDENT).encode()
        items = [("a_W", 0x12001, (64, 60), content), ("special:model.yml", 0x101, (len(text),), text)]
        assert "which is not a multiple of 64 by 8" in refusal(self.binary(tmp_path, packed(items)))

    @settings(max_examples=60, deadline=None)
    @given(places=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), min_size=1, max_size=4))
    def test_any_change_gives_a_model_or_an_error(
        self, tmp_path_factory: pytest.TempPathFactory, places: list[tuple[int, int]]
    ) -> None:
        content = bytearray(SMALL)
        for place, value in places:
            content[place % len(content)] = value
        path = tmp_path_factory.getbasetemp() / "changed.bin"
        path.write_bytes(content)
        with suppress(CheckpointError):
            read_binary(path)

    def test_arrays_of_objects_are_not_unpickled(self, tmp_path: Path) -> None:
        folder, ran = npz_folder(tmp_path, made()), tmp_path / "ran"
        evil = np.array([_Evil(ran)], dtype=object)
        write_npz(folder / "model.npz", made(), evil=evil)
        assert "'evil' has dtype object, expected plain numbers" in refusal(folder)
        assert not ran.exists()

    @pytest.mark.parametrize(
        "change",
        [
            lambda content: content[:100],
            lambda content: content[: len(content) // 2],
            lambda content: content.replace(b"'<f4'", b"'>f4'"),
            lambda content: content.replace(b"(64, 64)", b"(64,999)"),
            lambda content: content.replace(b"(64, 64)", b"(9**99,)"),
            lambda content: content.replace(b"\x93NUMPY", b"\x93NUMPI"),
        ],
        ids=["head", "half", "other end first", "other shape", "code for a shape", "no array"],
    )
    def test_a_broken_archive_is_refused(self, tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
        folder = npz_folder(tmp_path, made())
        (folder / "model.npz").write_bytes(change((folder / "model.npz").read_bytes()))
        assert refusal(folder / "model.npz")

    def test_a_zip_bomb_is_not_unpacked(self, tmp_path: Path) -> None:
        folder = npz_folder(tmp_path, made())
        with zipfile.ZipFile(folder / "model.npz", "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("bomb.npy", bytes(300_000_000))
        assert "more than the" in refusal(folder)

    @pytest.mark.parametrize(
        "text", ["a: [", "- 1\n", "? [a]\n: b\n", "x", "!!python/object/apply:os.system [ls]", "[" * 9000]
    )
    def test_settings_that_are_not_a_mapping_are_refused(self, tmp_path: Path, text: str) -> None:
        folder = npz_folder(tmp_path, made())
        (folder / "decoder.yml").write_text(text, encoding="utf-8")
        assert "decoder.yml" in refusal(folder)

    def test_a_file_without_settings_is_refused(self, tmp_path: Path) -> None:
        folder = npz_folder(tmp_path, made())
        with (folder / "model.npz").open("wb") as file:
            np.savez(file, **made().tensors)
        assert "has no settings inside (special:model.yml)" in refusal(folder / "model.npz")


class _Evil:
    """Records that it was unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


SMALL = packed(
    [("a_W", 0x404, (2, 3), bytes(256)), ("b", 0x402, (1, 4), bytes(8)), ("special:model.yml", 0x101, (3,), b"a:\0")]
)
