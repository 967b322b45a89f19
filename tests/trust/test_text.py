"""Text that nobody meant as text: an answer or a clear error, and work that grows no faster than the text."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2edge import Translator
from seq2edge.errors import CannotSplitError, DataError, Seq2EdgeError
from seq2edge.text.segments import split_to_max_tokens
from seq2edge.text.sentence_splitter import split_sentences

pytestmark = pytest.mark.trust
MEGABYTE = 2**20
STRANGE = {
    "NUL": "a\0b\0c",
    "right to left": "שלום עולם \u202eevil\u202c مرحبا",
    "combining marks": "e" + "\u0301" * 2000,
    "marks alone": "\u0301" * 500,
    "emoji": "👩‍👩‍👧‍👦" * 1430,  # 10,000 code points
    "mixed newlines": "one\rtwo\r\nthree\nfour\u2028five\x85six\x0b",
    "control characters": "".join(map(chr, range(32))),
    "private and unassigned": "\ue000\uffff\U0010ffff\ufdd0",
    "invisible": "\u200b\u2060\ufeff\u00ad",
    "tags of languages": ">>" * 200 + "<<" * 200,
    "brackets": "([{" * 500,
    "full stops": "." * 3000,
    "words without end": "ab. " * 500,
}


@pytest.fixture(scope="module")
def translator(bundles: Path) -> Translator:
    return Translator(bundles / "ort-fp32", threads=1)


@pytest.mark.parametrize("name", STRANGE)
def test_strange_text_gets_an_answer_or_a_clear_error(name: str, translator: Translator) -> None:
    try:
        [found] = translator.translate([STRANGE[name]], num_beams=1, max_new_tokens=2)
        assert isinstance(found.text, str)
    except CannotSplitError:  # one letter with so many accents that it is longer than the model reads
        assert name == "combining marks"


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udc80" * 10])
def test_half_characters_are_refused_with_their_place(text: str, translator: Translator) -> None:
    with pytest.raises(DataError, match="lone surrogate"):
        translator.translate([text])


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(st.characters(), max_size=60))
def test_any_text_gets_an_answer_or_one_of_our_errors(translator: Translator, text: str) -> None:
    with suppress(Seq2EdgeError):
        [found] = translator.translate([text], num_beams=1, max_new_tokens=2)
        assert isinstance(found.text, str)


@pytest.mark.parametrize("unit", ["x", "世", "a ", "ab. ", "e\u0301", "🙂", "(", ".", "\u00a0", ", "])
def test_the_work_of_splitting_grows_with_the_text_and_no_faster(unit: str) -> None:
    """By characters that the tokenizer is asked to count, for texts of 20,000 and of 40,000 characters."""

    def work(length: int) -> int:
        counted = 0

        def count(piece: str) -> int:
            nonlocal counted
            counted += len(piece)
            return len(piece)

        split_to_max_tokens(unit * (length // len(unit)), count, 60)
        return counted

    assert work(40_000) <= 2.2 * work(20_000)


@pytest.mark.parametrize("unit", ["x", "世", "a ", "Mr. ", "e\u0301", '."', "(", "..", "1."])
def test_a_megabyte_is_cut_into_sentences_without_losing_any_of_it(unit: str) -> None:
    text = unit * (MEGABYTE // len(unit))
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


def test_a_megabyte_without_a_space_is_counted_a_few_times_and_no_more(translator: Translator) -> None:
    counted = 0
    tokenizer = translator.tokenizer

    def count(piece: str) -> int:
        nonlocal counted
        counted += len(piece)
        return len(tokenizer.encode([piece])[0])

    pieces = split_to_max_tokens("x" * MEGABYTE, count, translator.longest)
    assert sum(map(len, pieces)) == MEGABYTE
    assert counted < 30 * MEGABYTE


def test_bytes_that_are_not_utf8_are_named_or_replaced(bundles: Path) -> None:
    command = [sys.executable, "-m", "seq2edge", "translate", "-m", str(bundles / "ort-fp32"), "--max-new-tokens=2"]
    bad = b"good\n\xff\xfe\x80 bad\nlast\n"
    strict = subprocess.run(command, input=bad, capture_output=True, check=False)
    assert strict.returncode == 2
    assert b"line 2" in strict.stderr
    assert b"Traceback" not in strict.stderr
    replaced = subprocess.run([*command, "--errors=replace"], input=bad, capture_output=True, check=False)
    assert replaced.returncode == 0
    assert replaced.stdout.count(b"\n") == 3
