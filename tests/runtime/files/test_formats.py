"""Every line of output has the requested columns, even for an empty line."""

import json

import pytest

from seq2edge.files.file_translation import FORMATS, OutputColumns
from seq2edge.results import Translation

EMPTY = Translation(text="")
FULL = OutputColumns(translations=3, alignment=True)


def test_an_empty_line_has_its_columns() -> None:
    assert FORMATS["text"](4, EMPTY, FULL) == "4 |||  ||| 0.0000 ||| "
    assert FORMATS["text"](4, EMPTY, OutputColumns(alignment=True)) == " ||| "
    assert FORMATS["tsv"](4, EMPTY, FULL).split("\t") == ["", "0.0000", "", "", "", "", "", ""]
    content = json.loads(FORMATS["jsonl"](4, EMPTY, FULL))
    assert (content["alternatives"], content["alignment"], content["source_pieces"]) == ([], "", [])


@pytest.mark.parametrize(("form", "line"), [("text", ""), ("tsv", "\t0.0000\t")])
def test_columns_that_were_not_requested_are_left_out(form: str, line: str) -> None:
    assert FORMATS[form](4, EMPTY, OutputColumns()) == line
    assert "alternatives" not in json.loads(FORMATS["jsonl"](4, EMPTY, OutputColumns()))
