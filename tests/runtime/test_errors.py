"""Errors are one line of a bearable length, whatever a file has put into them."""

import pytest

from seq2edge.errors import LONGEST, LONGEST_REASON, BundleError


@pytest.mark.parametrize("text", ["two\nlines", "a\r\nb", "a\u2028b", "\x1b[2J gone", "nul\x00"])
def test_an_error_is_one_line_that_steers_no_terminal(text: str) -> None:
    said = str(BundleError(text))
    assert len(said.splitlines()) == 1
    assert said.isprintable()


def test_a_giant_name_is_cut_and_what_follows_is_kept() -> None:
    said = str(BundleError(f"there is no {'x' * 5000}; take another"))
    assert len(said) < LONGEST_REASON + len("; take another") + 2
    assert said.startswith("there is no xxx")
    assert said.endswith("xxx; take another")


def test_an_error_of_many_reasons_ends_somewhere() -> None:
    assert len(str(BundleError("a reason; " * 5000))) == LONGEST + 1
