"""The table of a shortlist: what it allows, its file, and files that are none."""

from pathlib import Path

import numpy as np
import pytest

from seq2edge.engine.shortlist import HEADER, SIGNATURE, read_shortlist, shortlist_of
from seq2edge.errors import BundleError

TABLE = shortlist_of([[5, 3], [], [7, 5]], [0, 1], 9)


def test_a_sentence_may_have_the_words_of_its_tokens_and_those_of_all() -> None:
    allowed = TABLE.allowed([[0], [1, 1], [2, 0], [99, 1]])  # the table does not know 99
    assert [np.flatnonzero(row).tolist() for row in allowed] == [[0, 1, 3, 5], [0, 1], [0, 1, 3, 5, 7], [0, 1]]


@pytest.mark.parametrize("vocabulary", [9, 2**16, 2**16 + 1])
def test_a_file_gives_the_table_back(tmp_path: Path, vocabulary: int) -> None:
    table = shortlist_of([[5, vocabulary - 1], [], [3]], [2], vocabulary)
    (tmp_path / "table").write_bytes(table.to_bytes())
    read = read_shortlist(tmp_path / "table")
    assert (read.vocabulary_size, read.source_tokens) == (vocabulary, 3)
    assert [read.of(token).tolist() for token in range(3)] == [[5, vocabulary - 1], [], [3]]
    assert read.always.tolist() == [2]


def head(vocabulary: int, tokens: int, words: int) -> bytes:
    return SIGNATURE + np.array([vocabulary, tokens, words], "<u4").tobytes()


GOOD = TABLE.to_bytes()
STARTS = HEADER + 4  # of the second list
HOSTILE = {
    "empty": (b"", "does not begin like one"),
    "another file": (b"\x08\x0a" * 40, "does not begin like one"),
    "cut": (GOOD[:-1], "bytes instead of"),
    "too long": (GOOD + b"\0", "bytes instead of"),
    "a huge table": (head(9, 2**31, 0), "exceed any vocabulary"),
    "huge lists": (head(9, 3, 2**31 - 1), "bytes instead of"),
    "a word too high": (GOOD[:-2] + b"\x09\0", "lists the token 9"),
    "backwards": (GOOD[:STARTS] + np.array([4, 2], "<u4").tobytes() + GOOD[STARTS + 8 :], "ends before it begins"),
    "words of no list": (GOOD[: STARTS + 12] + b"\x01\0\0\0" + GOOD[STARTS + 16 :], "do not cover"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_table_is_refused_in_one_sentence(tmp_path: Path, kind: str) -> None:
    content, reason = HOSTILE[kind]
    (tmp_path / "table").write_bytes(content)
    with pytest.raises(BundleError, match=reason):
        read_shortlist(tmp_path / "table")
