"""Marian's binary shortlists, from files written by the description of the format."""

import struct
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from seq2edge.errors import DataError
from seq2edge_graphs.shortlist.marian_lex import SIGNATURE, checksum_of, read_marian_lex

LISTS = [[4, 5], [], [3], [1, 2, 8]]


def write(path: Path, lists: list[list[int]] = LISTS, **changes: int) -> Path:
    ends = np.cumsum([0, *map(len, lists)])
    sizes = {"first": 2, "best": 3, "offsets": len(ends), "words": int(ends[-1])} | changes
    rest = struct.pack("<4Q", *(sizes[name] for name in ("first", "best", "offsets", "words")))
    rest += ends.astype("<u8").tobytes() + np.array([*chain(*lists)], "<u4").tobytes()
    path.write_bytes(struct.pack("<QQ", SIGNATURE, changes.get("checksum", checksum_of(rest))) + rest)
    return path


def read(path: Path, *, source_tokens: int = 4, vocabulary: int = 9, shared: bool = False):
    return read_marian_lex(path, source_tokens=source_tokens, vocabulary=vocabulary, shared=shared)


def test_lists_and_first_tokens_are_read(tmp_path: Path) -> None:
    table = read(write(tmp_path / "lex.bin"))
    assert [table.of(token).tolist() for token in range(4)] == LISTS
    assert table.always.tolist() == [0, 1]


def test_with_a_shared_vocabulary_a_token_may_be_translated_to_itself(tmp_path: Path) -> None:
    table = read(write(tmp_path / "lex.bin"), shared=True)
    assert [table.of(token).tolist() for token in range(4)] == [[0, 4, 5], [1], [2, 3], [1, 2, 3, 8]]


def test_the_checksum_follows_the_format() -> None:
    """Computed by hand for the numbers 1 and 2, with a seed of 0."""
    first = 1 + 0x9E3779B9
    second = first ^ (2 + 0x9E3779B9 + (first << 6) + (first >> 2))
    assert checksum_of(struct.pack("<2Q", 1, 2)) == second


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"checksum": 1}, "checksum differs"),
        ({"offsets": 2**61}, "bytes instead of"),
        ({"words": 2**62}, "bytes instead of"),
        ({"words": 7}, "bytes instead of"),
    ],
)
def test_wrong_sizes_and_checksums_are_refused(tmp_path: Path, changes: dict[str, int], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read(write(tmp_path / "lex.bin", **changes))


def test_decreasing_offsets_are_refused(tmp_path: Path) -> None:
    content = bytearray(write(tmp_path / "lex.bin").read_bytes())
    content[48 + 8 : 48 + 16] = struct.pack("<Q", 5)
    content[8:16] = struct.pack("<Q", checksum_of(bytes(content[16:])))
    (tmp_path / "lex.bin").write_bytes(content)
    with pytest.raises(DataError, match="offsets do not match"):
        read(tmp_path / "lex.bin")


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "lex"
    path.write_bytes(b"short")
    with pytest.raises(DataError, match="fewer than a header"):
        read(path)
    path.write_text("Haus house 0.5\n" * 9)
    with pytest.raises(DataError, match="not in Marian's binary format"):
        read(path)


def test_lists_of_another_model_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "lex.bin")
    with pytest.raises(DataError, match="for 4 source tokens, but the model has 5"):
        read(path, source_tokens=5)
    with pytest.raises(DataError, match="lists the target token 8, but the model has 8"):
        read(path, vocabulary=8)
