from pathlib import Path

import pytest

from seq2edge.errors import DataError
from seq2edge_export.training.data import read_pairs


def test_bad_lines_are_counted_by_kind_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"a\tb\nno tab\n\tempty\nempty\t \n\xff\tlatin\n\nc\td\n")
    pairs = read_pairs(path)
    assert (pairs.sources, pairs.targets) == (["a", "c"], ["b", "d"])
    assert pairs.skipped == {"without a tab": 2, "with an empty side": 2, "not UTF-8": 1}
    assert "2 pairs, 5 lines skipped" in pairs.report()
    assert "1 not UTF-8" in pairs.report()


def test_line_ends_of_windows_and_a_byte_order_mark_are_not_text(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"\xef\xbb\xbfa\tb\r\nc\td\r\n")
    assert read_pairs(path).sources == ["a", "c"]
    assert read_pairs(path).targets == ["b", "d"]


def test_characters_that_only_python_calls_line_ends_stay_in_the_text(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\u2028b\x0bc\x85d\te\n", encoding="utf-8", newline="")
    assert read_pairs(path).sources == ["a\u2028b\x0bc\x85d"]


def test_columns_behind_the_second_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\tCC-BY\n", encoding="utf-8")
    assert read_pairs(path).targets == ["b"]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"no tab\n", b"\xff\xfe\n"])
def test_a_file_with_no_usable_line_is_an_error_that_says_why(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"no usable line.*source<TAB>target"):
        read_pairs(path)


def test_a_missing_file_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_pairs(tmp_path / "missing.tsv")
