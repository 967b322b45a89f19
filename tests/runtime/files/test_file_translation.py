"""Files are translated line by line, and an interrupted run is resumed only with the same input and model."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from seq2edge import Translator
from seq2edge.bundle.bundle import EMBEDDED
from seq2edge.errors import DataError, UsageError
from seq2edge.files.file_translation import in_groups, translate_file

FAST = {"num_beams": 1, "max_new_tokens": 3}
LINES = [f"I have {number} dogs.\n" for number in range(1100)]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(threads=1)


@pytest.fixture
def interrupted(translator: Translator, tmp_path: Path) -> Path:
    """A folder with an input, and the files of a run that was stopped after its first 1,024 lines."""

    def stop(lines: int, tokens: int) -> None:
        if tokens:
            raise KeyboardInterrupt

    (tmp_path / "in.txt").write_text("".join(LINES), encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        translate_file(translator, tmp_path / "in.txt", tmp_path / "out.txt", options=FAST, observe=stop)
    return tmp_path


def resume(translator: Translator, folder: Path) -> list[str]:
    summary = translator.translate_file(folder / "in.txt", folder / "out.txt", resume=True, **FAST)
    assert summary.texts < 1000  # not the whole again
    return (folder / "out.txt").read_text(encoding="utf-8").splitlines()


class TestResume:
    def test_the_same_input_goes_on(self, translator: Translator, interrupted: Path) -> None:
        assert len(resume(translator, interrupted)) == len(LINES)

    def test_lines_may_have_been_added(self, translator: Translator, interrupted: Path) -> None:
        (interrupted / "in.txt").write_text("".join([*LINES, "One more.\n"]), encoding="utf-8")
        assert len(resume(translator, interrupted)) == len(LINES) + 1

    @pytest.mark.parametrize("lines", [LINES[:1000], ["I am hungry.\n", *LINES[1:]], []])
    def test_another_input_is_refused(self, translator: Translator, interrupted: Path, lines: list[str]) -> None:
        (interrupted / "in.txt").write_text("".join(lines), encoding="utf-8")
        with pytest.raises(DataError, match=r"^[^\n]*in\.txt has changed since the interrupted run[^\n]*$"):
            resume(translator, interrupted)
        (interrupted / "in.txt").write_text("".join(LINES), encoding="utf-8")
        assert len(resume(translator, interrupted)) == len(LINES)  # nothing is lost by the refusal

    def test_a_bundle_with_another_tokenizer_is_refused(self, interrupted: Path) -> None:
        shutil.copytree(EMBEDDED, interrupted / "bundle")
        manifest = json.loads((interrupted / "bundle/manifest.json").read_text(encoding="utf-8"))
        manifest["tokenizer"]["lowercase"] = True
        (interrupted / "bundle/manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        with pytest.raises(UsageError, match="model was"):
            resume(Translator(interrupted / "bundle", threads=1), interrupted)


def test_lines_before_a_broken_one_are_kept(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"Good morning.\n\xff\n")
    with pytest.raises(DataError, match="line 2 of"):
        translator.translate_file(tmp_path / "in.txt", tmp_path / "out.txt", **FAST)
    (tmp_path / "in.txt").write_bytes(b"Good morning.\nHello.\n")
    summary = translator.translate_file(tmp_path / "in.txt", tmp_path / "out.txt", resume=True, **FAST)
    assert summary.texts == 1
    assert len((tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize("given", [{"format": "xml"}, {"errors": "ignore"}, {"prefix": 3}, {"num_beam": 3}])
def test_wrong_arguments_are_refused_and_leave_nothing(translator: Translator, tmp_path: Path, given: dict) -> None:
    (tmp_path / "in.txt").write_text("Hello.\n", encoding="utf-8")
    with pytest.raises(UsageError):
        translator.translate_file(tmp_path / "in.txt", tmp_path / "out.txt", **given)
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_the_input_is_not_written_over(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("Hello.\n", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to(tmp_path / "in.txt")
    for target in ("in.txt", "link.txt"):
        with pytest.raises(UsageError, match="is the input"):
            translator.translate_file(tmp_path / "in.txt", tmp_path / target)
    assert (tmp_path / "in.txt").read_text(encoding="utf-8") == "Hello.\n"


def test_prefix_and_hook_are_for_files_too(translator: Translator, tmp_path: Path) -> None:
    seen: list[int] = []
    (tmp_path / "in.txt").write_text("I have a dog.\nGood morning.\n", encoding="utf-8")
    translator.translate_file(
        tmp_path / "in.txt",
        tmp_path / "out.txt",
        prefix="Nun",
        hook=lambda sentences, tokens, scores: seen.extend(sentences.tolist()) or scores,
        **FAST,
    )
    assert all(line.startswith("Nun") for line in (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines())
    assert set(seen) == {0, 1}


def test_groups_are_full_but_for_the_last() -> None:
    assert list(in_groups("abcdefg", 3)) == [["a", "b", "c"], ["d", "e", "f"], ["g"]]
    assert list(in_groups("abcdef", 3)) == [["a", "b", "c"], ["d", "e", "f"]]
    assert list(in_groups("", 3)) == []


def test_what_was_read_before_an_error_comes_before_it() -> None:
    def failing() -> Iterator[str]:
        yield from "abcde"
        raise RuntimeError("the source broke")

    seen: list[list[str]] = []
    with pytest.raises(RuntimeError, match="the source broke"):
        seen.extend(in_groups(failing(), 3))
    assert seen == [["a", "b", "c"]] or seen == [["a", "b", "c"], ["d", "e"]]
    groups = in_groups(failing(), 3)
    assert [next(groups), next(groups)] == [["a", "b", "c"], ["d", "e"]]
