"""Files are translated line by line, and an interrupted run is resumed only with the same input and model."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from seq2edge import Translator
from seq2edge.bundle.bundle import DEFAULT_BUNDLE
from seq2edge.errors import DataError, UsageError
from seq2edge.files.file_translation import in_groups, translate_file

FAST = {"num_beams": 1, "max_new_tokens": 3}
LINES = [f"I have {number} dogs.\n" for number in range(1100)]
FEW = [f"I have {number} dogs{' and cats' * (number >= 190)}.\n" for number in range(200)]  # more than one batch


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(threads=1)


@pytest.fixture
def interrupted(translator: Translator, tmp_path: Path) -> Path:
    """A folder with an input, and the files of a run that was stopped after its first 1,024 lines."""
    return interrupt(translator, tmp_path, LINES, after=1024)


@pytest.fixture
def interrupted_early(translator: Translator, tmp_path: Path) -> Path:
    """The same with fewer lines, after the first batch, which has the longest lines."""
    return interrupt(translator, tmp_path, FEW, after=1)


def interrupt(translator: Translator, folder: Path, lines: list[str], *, after: int) -> Path:
    def stop(done: int, tokens: int) -> None:
        if done >= after:
            raise KeyboardInterrupt

    (folder / "in.txt").write_text("".join(lines), encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        translate_file(translator, folder / "in.txt", folder / "out.txt", options=FAST, observe=stop)
    return folder


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
        shutil.copytree(DEFAULT_BUNDLE, interrupted / "bundle")
        manifest = json.loads((interrupted / "bundle/manifest.json").read_text(encoding="utf-8"))
        manifest["tokenizer"]["lowercase"] = True
        (interrupted / "bundle/manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        with pytest.raises(UsageError, match="model was"):
            resume(Translator(interrupted / "bundle", threads=1), interrupted)


class TestEarlyResume:
    """What a batch has finished is kept, although earlier lines are missing."""

    def test_no_line_is_translated_twice(self, translator: Translator, interrupted_early: Path) -> None:
        done = len((interrupted_early / ".out.txt.part.ahead").read_text(encoding="utf-8").splitlines())
        seen: list[int] = []
        source, target = interrupted_early / "in.txt", interrupted_early / "out.txt"
        summary = translate_file(
            translator, source, target, resume=True, options=FAST, observe=lambda lines, _: seen.append(lines)
        )
        assert 0 < done < len(FEW)
        assert (seen[0], seen[-1], summary.texts) == (done, len(FEW), len(FEW) - done)
        expected = translator.translate([line.strip() for line in FEW], **FAST)
        assert target.read_text(encoding="utf-8").splitlines() == [one.text for one in expected]
        assert sorted(path.name for path in interrupted_early.iterdir()) == ["in.txt", "out.txt"]

    @pytest.mark.parametrize("lines", [FEW[:190], [*FEW[:190], *(["I am hungry.\n"] * 10)], []])
    def test_another_input_is_refused(self, translator: Translator, interrupted_early: Path, lines: list[str]) -> None:
        (interrupted_early / "in.txt").write_text("".join(lines), encoding="utf-8")
        with pytest.raises(DataError, match=r"^[^\n]*in\.txt has changed since the interrupted run[^\n]*$"):
            resume(translator, interrupted_early)
        (interrupted_early / "in.txt").write_text("".join(FEW), encoding="utf-8")
        assert len(resume(translator, interrupted_early)) == len(FEW)  # nothing is lost by the refusal

    def test_another_job_is_refused(self, translator: Translator, interrupted_early: Path) -> None:
        source, target = interrupted_early / "in.txt", interrupted_early / "out.txt"
        with pytest.raises(UsageError, match="num_beams was '1' and is '2'"):
            translator.translate_file(source, target, resume=True, num_beams=2, max_new_tokens=3)

    def test_a_record_that_a_crash_cut_off_is_translated_again(
        self, translator: Translator, interrupted_early: Path
    ) -> None:
        ahead = interrupted_early / ".out.txt.part.ahead"
        ahead.write_bytes(ahead.read_bytes()[:-5])
        assert len(resume(translator, interrupted_early)) == len(FEW)

    def test_without_resume_nothing_of_it_is_used(self, translator: Translator, interrupted_early: Path) -> None:
        source, target = interrupted_early / "in.txt", interrupted_early / "out.txt"
        assert translator.translate_file(source, target, **FAST).texts == len(FEW)
        assert sorted(path.name for path in interrupted_early.iterdir()) == ["in.txt", "out.txt"]


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
