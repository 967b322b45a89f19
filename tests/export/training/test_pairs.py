from pathlib import Path

import pytest

from seq2edge.errors import DataError
from seq2edge_export.training.data import read_pairs


def test_bad_lines_are_skipped_and_counted_by_reason(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"a\tb\nno tab\n\tempty\nempty\t \n\xff\tlatin\n\nc\td\n")
    pairs = read_pairs(path)
    assert (pairs.sources, pairs.targets) == (["a", "c"], ["b", "d"])
    assert pairs.skipped == {"without a tab": 2, "with an empty side": 2, "not UTF-8": 1}
    assert "2 pairs, 5 lines skipped" in pairs.report()
    assert "1 not UTF-8" in pairs.report()


def test_windows_line_ends_and_a_byte_order_mark_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"\xef\xbb\xbfa\tb\r\nc\td\r\n")
    assert read_pairs(path).sources == ["a", "c"]
    assert read_pairs(path).targets == ["b", "d"]


def test_other_unicode_line_separators_stay_in_the_text(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\u2028b\x0bc\x85d\te\n", encoding="utf-8", newline="")
    assert read_pairs(path).sources == ["a\u2028b\x0bc\x85d"]


def test_further_columns_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\tCC-BY\n", encoding="utf-8")
    assert read_pairs(path).targets == ["b"]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"no tab\n", b"\xff\xfe\n"])
def test_a_file_without_a_usable_line_is_an_error_with_the_reason(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"no usable line.*source<TAB>target"):
        read_pairs(path)


def test_a_missing_file_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_pairs(tmp_path / "missing.tsv")
