"""``--tokenizer``: vocabularies that come without their tokenizer."""

import io
import subprocess
import sys
from pathlib import Path

import fairseq_checkpoint
import marian_model
import opennmt_model
import pytest
import t5_folder
from ctranslate2_model import vocabulary, write_without_tokenizer
from sentencepiece import SentencePieceProcessor
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe
from tiny_checkpoint import SENTENCES

from seq2edge import Translator
from seq2edge.bundle.bundle import load_bundle
from seq2edge.errors import CheckpointError, Seq2EdgeError, UsageError
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.verify import verify

SPECIAL = ["<blank>", "<s>", "</s>"]
LETTERS = list("abcdefghijklmnopqrstuvwxyz .")


def learned_codes() -> str:
    codes = io.StringIO()
    learn_bpe(SENTENCES, codes, num_symbols=60)
    return codes.getvalue()


def encoded(path: Path, tokenizer: str, text: str) -> list[int]:
    [ids] = load_checkpoint(path, tokenizer=tokenizer).source_model().tokenizer().encode([text])
    return ids


class TestCTranslate2:
    def test_tokens_are_separated_by_spaces_alone(self, tmp_path: Path) -> None:
        words = ["<unk>", *SPECIAL, "good", "morning", "3\u00a0km", "."]
        folder = write_without_tokenizer(tmp_path, words)
        assert encoded(folder, "spaces", " good  morning 3\u00a0km night .\n") == [4, 5, 6, 0, 7]
        tokenizer = load_checkpoint(folder, tokenizer="spaces").source_model().tokenizer()
        assert tokenizer.decode([[4, 0, 6, 2]]) == ["good <unk> 3\u00a0km"]

    def test_byte_pairs_are_those_of_subword_nmt(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("codes.txt").write_text(learned_codes(), encoding="utf-8")
        theirs = BPE(io.StringIO(learned_codes()))
        pieces = sorted({piece for text in SENTENCES for piece in theirs.process_line(text).split()})
        words = ["<unk>", *SPECIAL, *pieces]
        write_without_tokenizer(Path("model"), words)
        for text in SENTENCES[:20]:
            wanted = [words.index(piece) for piece in theirs.process_line(text).split()]
            assert encoded(Path("model"), "bpe:codes.txt", text) == wanted

    def test_a_sentencepiece_model_may_be_anywhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        model, pieces = vocabulary()
        for name in ("one.spm", "other.spm"):
            Path(name).write_bytes(model)
        write_without_tokenizer(Path("model"), list(pieces), config={"add_source_eos": True})
        cut = SentencePieceProcessor(model_proto=model).encode(SENTENCES[0], out_type=str)
        wanted = [*(pieces.index(piece) for piece in cut), 0]
        assert encoded(Path("model"), "spm:one.spm", SENTENCES[0]) == wanted
        assert encoded(Path("model"), "spm:one.spm,other.spm", SENTENCES[0]) == wanted

    def test_an_unknown_token_behind_the_list_has_an_id_for_each_side(self, tmp_path: Path) -> None:
        """As in models of OpenNMT-tf: their last row has no line in the vocabulary."""
        folder = write_without_tokenizer(tmp_path, [*SPECIAL, *LETTERS], [*SPECIAL, *"ABC"])
        checkpoint = load_checkpoint(folder, tokenizer="characters")
        assert (checkpoint.config.tokens.source_unk, checkpoint.config.tokens.unk) == (31, 6)
        tokenizer = checkpoint.source_model().tokenizer()
        assert tokenizer.encode(["a bä!"]) == [[3, 29, 4, 31, 31]]
        assert tokenizer.unknown_characters("a bä!", [3, 29, 4, 31, 31]) == 2
        assert tokenizer.encode_target(["ABx"]) == [[3, 4, 6, 2]]
        assert tokenizer.decode([[3, 6, 5, 2]]) == ["A<unk>C"]

    def test_a_model_without_a_row_for_the_unknown_token_is_refused(self, tmp_path: Path) -> None:
        folder = write_without_tokenizer(tmp_path, [*SPECIAL, *LETTERS], rows=31)
        with pytest.raises(CheckpointError, match="have the ids 1, 2, 31 and 0, but the model has 31 source tokens"):
            load_checkpoint(folder, tokenizer="characters")

    def test_a_word_with_the_id_of_a_special_token_is_refused(self, tmp_path: Path) -> None:
        folder = write_without_tokenizer(tmp_path, ["<unk>", "<blank>", "the", "of", "a"], ["<unk>", *SPECIAL, "a"])
        with pytest.raises(
            CheckpointError, match=r"has 'the' where target_vocabulary\.txt has the special token '<s>'"
        ):
            load_checkpoint(folder, tokenizer="spaces")

    def test_the_wrong_sentencepiece_model_is_refused(self, tmp_path: Path) -> None:
        folder = write_without_tokenizer(tmp_path / "model", ["<unk>", *SPECIAL, *LETTERS])
        (tmp_path / "other.spm").write_bytes(vocabulary()[0])
        with pytest.raises(CheckpointError, match="is not the SentencePiece model of source_vocabulary"):
            load_checkpoint(folder, tokenizer=f"spm:{tmp_path / 'other.spm'}")

    def test_without_the_option_the_error_names_it(self, tmp_path: Path) -> None:
        with pytest.raises(CheckpointError, match="or tell with --tokenizer how to split texts"):
            load_checkpoint(write_without_tokenizer(tmp_path, ["<unk>", *SPECIAL]))

    def test_the_bundle_translates_like_the_model(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        write_without_tokenizer(Path("model"), [*SPECIAL, *LETTERS], [*SPECIAL, *"ABCDEFG"])
        export_bundle("model", "bundle", tokenizer="characters", compare=False)
        original = load_checkpoint(Path("model"), tokenizer="characters").source_model()
        assert verify(load_bundle(Path("bundle")), original, texts=["good morning.", "3 apples"]).passed
        [result] = Translator("bundle", threads=1).translate(["3 apples"])
        assert any("1 character" in note for note in result.notes)


def fairseq_words(folder: Path) -> Path:
    folder = fairseq_checkpoint.write_folder(folder, fairseq_checkpoint.settings_of())
    (folder / "bpecodes").rename(folder.parent / "codes")
    return folder


def test_fairseq_codes_may_be_anywhere(tmp_path: Path) -> None:
    next_to = fairseq_checkpoint.write_folder(tmp_path / "all", fairseq_checkpoint.settings_of())
    folder = fairseq_words(tmp_path / "model")
    text = "the old man sees bread."
    assert encoded(folder, f"bpe:{tmp_path / 'codes'}", text) == encoded(next_to, "", text)
    first, second = fairseq_checkpoint.SOURCE_TOKENS[:2]
    assert encoded(folder, "spaces", f"{second} {first}") == [5, 4, 2]


def test_the_transforms_of_opennmt_can_be_replaced(tmp_path: Path) -> None:
    shape = opennmt_model.Shape()
    content = opennmt_model.onmt_content(shape, opennmt_model.seeded(shape))
    content["opt"].transforms = ["prefix"]
    path = opennmt_model.write_onmt(tmp_path, content)
    with pytest.raises(CheckpointError, match="the transform prefix"):
        load_checkpoint(path)
    [first, second] = content["vocab"]["src"][10:12]
    assert encoded(path, "spaces", f"{second} {first}") == [11, 10]


class TestMarian:
    def test_a_token_list_is_used_with_byte_pairs(self, tmp_path: Path) -> None:
        folder = marian_model.write_folder(tmp_path / "model")
        for path in folder.glob("*.spm"):
            path.unlink()
        (folder / "vocab.yml").write_text('"</s>": 0\n"<unk>": 1\n"th@@": 2\n"e": 3\n', encoding="utf-8")
        (tmp_path / "codes").write_text("#version: 0.2\nt h\n", encoding="utf-8")
        assert encoded(folder, f"bpe:{tmp_path / 'codes'}", "the x") == [2, 3, 1, 0]

    def test_a_sentencepiece_vocabulary_needs_no_tokenizer(self, tmp_path: Path) -> None:
        with pytest.raises(CheckpointError, match="is a SentencePiece model itself: leave out --tokenizer"):
            load_checkpoint(marian_model.write_folder(tmp_path), tokenizer="spaces")


@pytest.mark.parametrize(
    ("tokenizer", "words"),
    [
        ("space", "the tokenizer 'space' is not known: expected spaces, characters, bpe:CODES or spm:MODEL"),
        ("spaces:file", "is not known"),
        ("bpe", "is not known"),
        ("spm:", "is not known"),
        ("spm:a,b,c", "is not known"),
        ("bpe:nowhere", "nowhere, which is not a file"),
    ],
)
def test_an_unusable_tokenizer_is_one_sentence(tmp_path: Path, tokenizer: str, words: str) -> None:
    folder = write_without_tokenizer(tmp_path, ["<unk>", *SPECIAL])
    with pytest.raises(UsageError, match=words) as caught:
        load_checkpoint(folder, tokenizer=tokenizer)
    assert "\n" not in str(caught.value)


def test_codes_that_are_none_are_refused(tmp_path: Path) -> None:
    folder = write_without_tokenizer(tmp_path / "model", ["<unk>", *SPECIAL])
    (tmp_path / "codes").write_bytes(b"\xff\xfe")
    with pytest.raises(Seq2EdgeError, match="cannot be read as BPE codes"):
        encoded(folder, f"bpe:{tmp_path / 'codes'}", "text")


def test_other_families_have_their_own_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="--tokenizer is for the families ctranslate2, fairseq, marian-native, opennmt"
    ):
        load_checkpoint(t5_folder.write_t5(tmp_path), tokenizer="spaces")


def test_the_command_refuses_before_anything_is_written(tmp_path: Path) -> None:
    folder = write_without_tokenizer(tmp_path / "model", ["<unk>", *SPECIAL])
    program = [sys.executable, "-m", "seq2edge", "export", str(folder), "bundle", "--tokenizer", "bpe:codes"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"Error: the tokenizer 'bpe:codes' names {tmp_path / 'codes'}, which is not a file\n"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
