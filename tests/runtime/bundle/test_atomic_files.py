"""Files and folders appear complete or not at all."""

import os
from pathlib import Path

import pytest

from seq2edge.bundle.atomic_files import new_folder, replaced_file, sha256_of

DEAD_PROCESS = 2**22 + 1  # above the largest process id of Linux


def test_a_file_is_replaced_on_success(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with replaced_file(target) as new:
        new.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_is_unchanged_if_writing_fails(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), replaced_file(target) as new:
        new.write_text(str(1 / 0))
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_stays_and_the_file_it_points_to_is_replaced(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "deep" / "a.txt"
    target.parent.mkdir()
    link.symlink_to(target)
    for content in ("first", "second"):  # there is no file at first
        with replaced_file(link) as new:
            new.write_text(content)
        assert target.read_text() == content
        assert link.is_symlink()


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.touch()
    target.chmod(0o640)
    with replaced_file(target) as new:
        new.write_text("new")
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_folder_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "folder"
    with new_folder(target) as folder:
        (folder / "file").write_text("x")
        assert not target.exists()
    assert (target / "file").read_text() == "x"
    assert list(target.parent.iterdir()) == [target]


def test_a_failure_leaves_no_new_folder_and_the_old_one_unchanged(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    (target / "file").write_text("old")
    with pytest.raises(ZeroDivisionError), new_folder(target) as folder:
        (folder / "file").write_text(str(1 / 0))
    assert (target / "file").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_replaces_the_old_one_and_the_leftovers_of_a_killed_run(tmp_path: Path) -> None:
    target, leftover = tmp_path / "folder", tmp_path / f".folder.{DEAD_PROCESS}.new"
    target.mkdir()
    (target / "gone").write_text("old")
    leftover.mkdir()
    (leftover / "half").write_text("half")
    with new_folder(target) as folder:
        (folder / "file").write_text("new")
    assert [path.name for path in target.iterdir()] == ["file"]
    assert list(tmp_path.iterdir()) == [target]


def test_the_folder_of_a_concurrent_run_is_kept(tmp_path: Path) -> None:
    target, other = tmp_path / "folder", tmp_path / f".folder.{os.getppid()}.new"
    other.mkdir()
    with new_folder(target) as folder:
        (folder / "file").write_text("new")
    assert other.is_dir()


def test_the_hash_is_sha256(tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.touch()
    assert sha256_of(file) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
