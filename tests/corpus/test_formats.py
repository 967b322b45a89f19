import csv
import gzip
import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from seq2edge.corpus import worker
from seq2edge.corpus.run import CorpusReport, plan, run


def translate(source: Path, target: Path, column: str = "text", keep: tuple[str, ...] = ()) -> CorpusReport:
    return run(plan(str(source), str(target), worker(column=column, keep=keep, num_beams=1)))


def test_each_line_of_a_text_becomes_a_line(tmp_path: Path, sentences: list[str], expected: list[str]) -> None:
    (tmp_path / "a.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    report = translate(tmp_path / "a.txt", tmp_path / "out")
    assert (tmp_path / "out/a.txt").read_text(encoding="utf-8").splitlines() == expected
    assert (report.rows, report.poisoned, report.summary.texts) == (40, 0, 40)


def test_a_line_that_is_not_utf8_becomes_empty_and_is_kept_aside(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Good morning.\n\xff\n\nSee you.".encode("latin-1"))
    report = translate(tmp_path / "a.txt", tmp_path / "out")
    lines = (tmp_path / "out/a.txt").read_text(encoding="utf-8").split("\n")
    assert [bool(line) for line in lines] == [True, False, False, True, False]
    [poisoned] = (tmp_path / "out/a.txt.poisoned.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(poisoned) == {"row": 1, "reason": "is not UTF-8", "value": "\\xff"}
    assert report.poisoned == 1


def test_objects_keep_their_text_to_the_byte(tmp_path: Path, sentences: list[str], expected: list[str]) -> None:
    texts = [json.dumps(sentence) for sentence in sentences[:3]]
    lines = [
        f'{{"n": 1.10, "big": 12345678901234567890, "text": {texts[0]}, "date": "2020-01-01"  }}',
        f'  {{"text":{texts[1]},"deep":{{"a":[1,2,{{}}]}}}}',
        f'{{"text": {texts[2]}, "é": "\\u00e9"}}\r',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    translate(tmp_path / "a.jsonl", tmp_path / "out")
    found = (tmp_path / "out/a.jsonl").read_text(encoding="utf-8").splitlines()
    for line, old, translation in zip(found, lines, expected, strict=False):
        assert line.startswith(old.rstrip()[:-1].rstrip())
        assert json.loads(line) == {**json.loads(old), "translation": translation}


def test_scores_and_notes_can_be_kept_in_every_format_with_columns(tmp_path: Path) -> None:
    text = "Good morning. " * 2
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}) + "\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text(f"text\n{text}\n", encoding="utf-8")
    parquet.write_table(pyarrow.table({"text": [text]}), tmp_path / "c.parquet")
    rows = []
    for name in ("a.jsonl", "b.csv", "c.parquet"):
        translate(tmp_path / name, tmp_path / "out" / name, keep=("score", "notes"))
    rows.append(json.loads((tmp_path / "out/a.jsonl/a.jsonl").read_text(encoding="utf-8")))
    [record] = csv.DictReader((tmp_path / "out/b.csv/b.csv").read_text(encoding="utf-8").splitlines())
    notes, score = record["translation_notes"].split("; "), float(record["translation_score"])
    rows.append({**record, "translation_notes": notes, "translation_score": score})
    rows += parquet.read_table(tmp_path / "out/c.parquet/c.parquet").to_pylist()
    assert rows[0] == rows[1] == rows[2]
    assert rows[0]["translation_notes"] == ["has 2 sentences"]


def test_csv_values_stay_strings(tmp_path: Path, expected: list[str], sentences: list[str]) -> None:
    records = [["007", sentences[0], 'two\nlines, "quoted"'], ["1e5", sentences[1], ""], ["short"]]
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["id", "text", "note"], *records])
    report = translate(tmp_path / "a.csv", tmp_path / "out")
    with (tmp_path / "out/a.csv").open(encoding="utf-8", newline="") as file:
        found = list(csv.reader(file))
    assert found == [["id", "text", "note", "translation"], *([*records[row], expected[row]] for row in (0, 1))]
    assert report.poisoned == 1


def test_parquet_keeps_types_order_and_metadata(tmp_path: Path, sentences: list[str], expected: list[str]) -> None:
    columns = {
        "id": pyarrow.array(range(40), pyarrow.int16()),
        "when": pyarrow.array([None] * 40, pyarrow.timestamp("ms")),
        "text": pyarrow.array(sentences).dictionary_encode(),
        "tags": pyarrow.array([["a"]] * 40),
    }
    table = pyarrow.table(columns).replace_schema_metadata({"owner": "us"})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=7)
    translate(tmp_path / "a.parquet", tmp_path / "out")
    found = parquet.read_table(tmp_path / "out/a.parquet")
    assert found["translation"].to_pylist() == expected
    assert found.schema.metadata[b"owner"] == b"us"
    assert found.drop_columns("translation").cast(table.schema).equals(table)


def test_compressed_files_and_subfolders_keep_their_names(
    tmp_path: Path, sentences: list[str], expected: list[str]
) -> None:
    (tmp_path / "in/deep").mkdir(parents=True)
    with gzip.open(tmp_path / "in/deep/a.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(sentences[:5]) + "\n")
    (tmp_path / "in/empty.txt").touch()
    report = translate(tmp_path / "in", tmp_path / "out")
    with gzip.open(tmp_path / "out/deep/a.txt.gz", "rt", encoding="utf-8") as file:
        assert file.read().splitlines() == expected[:5]
    assert (tmp_path / "out/empty.txt").read_bytes() == b""
    assert {name: counts["rows"] for name, counts in report.files.items()} == {"deep/a.txt.gz": 5, "empty.txt": 0}


@pytest.mark.parametrize("source", ["in/*.txt", "file://{}/in/a.txt"])
def test_patterns_and_uris_are_sources(tmp_path: Path, source: str, expected: list[str], sentences: list[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text(sentences[0] + "\n", encoding="utf-8")
    (tmp_path / "in/b.other").touch()
    where = source.format(tmp_path) if "{}" in source else str(tmp_path / source)
    run(plan(where, f"file://{tmp_path}/out", worker(num_beams=1)))
    assert (tmp_path / "out/a.txt").read_text(encoding="utf-8") == expected[0] + "\n"
