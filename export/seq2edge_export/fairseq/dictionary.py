"""A dictionary of fairseq, ``dict.<language>.txt``: a token and how often it occurred a line; needs nothing.

Four marks stand before the first line and are not in the file.
"""

from pathlib import Path

from seq2edge.errors import CheckpointError
from seq2edge.tokens import SpecialTokens

MARKS = ("<s>", "<pad>", "</s>", "<unk>")
TOKENS = SpecialTokens(bos=0, pad=1, eos=2, unk=3)
AGAIN = "#fairseq:overwrite"  # behind a token that has a number already: it gets another


def read_dictionary(path: Path) -> dict[str, int]:
    """The number of every token, marks included."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 ({error})") from None
    numbers = {mark: number for number, mark in enumerate(MARKS)}
    for place, line in enumerate(text.removesuffix("\n").split("\n")):
        token, again = _token(line, f"{path}, line {place + 1}")
        if token in numbers and not again:
            raise CheckpointError(f"{path}, line {place + 1}: {token!r} has the number {numbers[token]} already")
        numbers[token] = len(MARKS) + place
    return numbers


def count_tokens(numbers: dict[str, int]) -> int:
    return max(numbers.values()) + 1


def _token(line: str, where: str) -> tuple[str, bool]:
    """The token of a line, and whether it may be there a second time."""
    rest = line.rstrip()
    again = rest.endswith(f" {AGAIN}")
    token, space, count = rest.removesuffix(f" {AGAIN}").rpartition(" ")
    if not space or not count.lstrip("-").isdecimal():
        raise CheckpointError(f"{where}: {line[:60]!r} is not a token and a number")
    return token, again
