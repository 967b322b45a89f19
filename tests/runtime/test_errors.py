"""Error messages are one line of limited length, whatever a file put into them."""

import pytest

from seq2edge.errors import MAX_LENGTH, MAX_REASON_LENGTH, BundleError, listed


@pytest.mark.parametrize("text", ["two\nlines", "a\r\nb", "a\u2028b", "\x1b[2J gone", "nul\x00"])
def test_an_error_is_one_line_without_control_characters(text: str) -> None:
    message = str(BundleError(text))
    assert len(message.splitlines()) == 1
    assert message.isprintable()


def test_a_huge_name_is_cut_and_the_rest_is_kept() -> None:
    message = str(BundleError(f"there is no {'x' * 5000}; take another"))
    assert len(message) < MAX_REASON_LENGTH + len("; take another") + 2
    assert message.startswith("there is no xxx")
    assert message.endswith("xxx; take another")


def test_an_error_with_many_reasons_is_cut() -> None:
    assert len(str(BundleError("a reason; " * 5000))) == MAX_LENGTH + 1


def test_an_error_lists_the_first_of_very_many_problems() -> None:
    assert listed(["a", "b"]) == "a; b"
    assert listed([str(number) for number in range(1020)]).endswith("; 29; and 990 more")
