import json
import pickle
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from seq2edge import Translator
from seq2edge.cli.main import main
from seq2edge.corpus import worker
from seq2edge.corpus.run import plan, run
from seq2edge.errors import DataError, UsageError
from seq2edge.files.file_translation import fingerprint

DRIVER = Path(__file__).with_name("driver.py")


@pytest.fixture
def source(tmp_path: Path, sentences: list[str]) -> Path:
    (tmp_path / "in").mkdir()
    for name, some in (("a.jsonl", sentences[:24]), ("b.jsonl", sentences[24:])):
        rows = [json.dumps({"id": number, "text": text}) for number, text in enumerate(some)]
        (tmp_path / "in" / name).write_text("\n".join([*rows, '{"id": -1}']) + "\n", encoding="utf-8")
    return tmp_path / "in"


def content(folder: Path) -> dict[str, bytes]:
    """Return the output files, hidden ones too, without the report, which has times."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def drive(*arguments: str | Path) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, DRIVER, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def kill_after(process: "subprocess.Popen[str]", lines: int) -> None:
    assert process.stdout is not None
    for _ in range(lines):
        assert process.stdout.readline().startswith("rows")
    process.kill()
    process.communicate()


def test_a_killed_run_is_resumed_without_losing_or_repeating_a_row(tmp_path: Path, source: Path) -> None:
    run(plan(str(source), str(tmp_path / "whole"), worker(num_beams=1)))
    killed = drive(source, tmp_path / "out")
    kill_after(killed, 5)
    assert not (tmp_path / "out/b.jsonl").exists()
    again = drive(source, tmp_path / "out", "--resume")
    kill_after(again, 10)
    last = drive(source, tmp_path / "out", "--resume")
    output, _ = last.communicate()
    assert last.returncode == 0
    assert int(output.splitlines()[0].split()[1]) > 16  # rows that were done before
    assert content(tmp_path / "out") == content(tmp_path / "whole")
    assert len(content(tmp_path / "out")) == 4  # two files, each with a poisoned row
    assert not (tmp_path / "out/_seq2edge/parts").exists()


def test_resuming_a_complete_run_changes_nothing(tmp_path: Path, source: Path) -> None:
    job = plan(str(source), str(tmp_path / "out"), worker(num_beams=1))
    first, before = run(job), content(tmp_path / "out")
    parts = tmp_path / "out/_seq2edge/parts"
    parts.mkdir()
    (parts / "left.new").write_bytes(b"by a run that was killed when it had finished")
    assert run(job, resume=True) == first
    assert content(tmp_path / "out") == before
    assert not parts.exists()


def test_a_run_is_resumed_with_the_chunks_that_it_began_with(tmp_path: Path, source: Path) -> None:
    run(plan(str(source), str(tmp_path / "whole"), worker(num_beams=1)))
    kill_after(drive(source, tmp_path / "out", "--chunk-rows", "5"), 3)
    run(plan(str(source), str(tmp_path / "out"), worker(num_beams=1), chunk_rows=7), resume=True)  # another engine
    assert content(tmp_path / "out") == content(tmp_path / "whole")
    assert json.loads((tmp_path / "out/_seq2edge/job.json").read_text(encoding="utf-8"))["chunk_rows"] == 5


def test_a_run_is_resumed_only_with_the_same_input_and_options(tmp_path: Path, source: Path) -> None:
    kill_after(drive(source, tmp_path / "out"), 3)
    job = plan(str(source), str(tmp_path / "out"), worker(num_beams=2))
    with pytest.raises(UsageError, match="was started as another job"):
        run(job, resume=True)
    text = (source / "a.jsonl").read_text(encoding="utf-8")
    (source / "a.jsonl").write_text(text.replace("a", "b", 1), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, DRIVER, source, tmp_path / "out", "--resume"], capture_output=True, text=True
    )
    assert "has changed since the interrupted run" in done.stderr


def test_a_file_that_becomes_too_large_is_one_sentence_and_the_run_can_be_resumed(tmp_path: Path, source: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900))

    command = [sys.executable, DRIVER, source, tmp_path / "out", "--chunk-rows", "8"]
    full = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True)
    assert full.returncode == 1
    assert full.stderr.startswith("Error: ")
    assert "File too large" in full.stderr
    assert full.stderr.count("\n") == 1
    assert subprocess.run([*command, "--resume"], capture_output=True).returncode == 0
    run(plan(str(source), str(tmp_path / "whole"), worker(num_beams=1)))
    assert content(tmp_path / "out") == content(tmp_path / "whole")


SMALL_DISK = """
mount -t tmpfs -o size=32k tmpfs "$1"
"$2" "$3" "$4" "$1/out" $5 2>&1 | tail -n 1
mount -o remount,size=16m "$1"
"$2" "$3" "$4" "$1/out" $5 --resume > /dev/null && cp "$1"/out/*.jsonl "$6"
"""


@pytest.mark.skipif(subprocess.run(["unshare", "-rm", "true"]).returncode != 0, reason="nothing can be mounted here")
@pytest.mark.parametrize("engine", ["", "--ray"])
def test_a_full_disk_is_one_sentence_and_the_run_can_be_resumed(tmp_path: Path, source: Path, engine: str) -> None:
    if engine:
        pytest.importorskip("ray")
    for folder in ("disk", "copy"):
        (tmp_path / folder).mkdir()
    command = ["unshare", "-rm", "sh", "-c", SMALL_DISK, "sh", tmp_path / "disk", sys.executable, DRIVER, source]
    full = subprocess.run([*command, engine, tmp_path / "copy"], capture_output=True, text=True)
    assert full.stdout.startswith("Error: ")
    assert "No space left on device" in full.stdout
    assert full.returncode == 0, full.stderr
    run(plan(str(source), str(tmp_path / "whole"), worker(num_beams=1)))
    assert content(tmp_path / "copy") == content(tmp_path / "whole")


def test_two_runs_do_not_write_to_the_same_folder(tmp_path: Path, source: Path) -> None:
    job, started, go = (
        plan(str(source), str(tmp_path / "out"), worker(num_beams=1)),
        threading.Event(),
        threading.Event(),
    )

    def wait(rows: int, tokens: int) -> None:
        started.set()
        go.wait()

    first = threading.Thread(target=run, args=(job,), kwargs={"observe": wait})
    first.start()
    started.wait()
    try:
        with pytest.raises(UsageError, match="another run is writing"):
            run(job, resume=True)
    finally:
        go.set()
        first.join()
    assert (tmp_path / "out/b.jsonl").exists()


def test_rows_that_are_too_long_go_to_a_side_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"Hello.\n{'very ' * 600}long\nBye.\n", encoding="utf-8")
    report = run(plan(str(tmp_path / "a.txt"), str(tmp_path / "out"), worker(num_beams=1, long="error")))
    assert report.poisoned == 1
    [row] = map(json.loads, (tmp_path / "out/a.txt.poisoned.jsonl").read_text(encoding="utf-8").splitlines())
    assert row["row"] == 1
    assert "the model takes at most" in row["reason"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--column", "body"], "has no column 'body'; it has 'id', 'text'"),
        (["--output-column", "id"], "already has a column 'id'; choose another --output-column"),
        (["--keep", "tokens"], "'tokens' cannot be kept"),
        (["--input", "nowhere"], "nowhere has no files"),
        (["--input", "mixed"], "has files of several formats"),
        (["--input", "schemas"], "b.csv has other columns than a.csv"),
        (["--input", "odd.doc"], "has none of the suffixes .txt"),
        (["--input", "in/*.parquet"], "no file matches"),
        (["--output", "full"], "is not empty; choose another --output"),
        (["--address", "auto"], "--address needs --engine ray"),
        (["--engine", "ray", "--address", "127.0.0.1:1"], "no Ray cluster answers at 127.0.0.1:1"),
        (["-m", "nothing"], "nothing"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "mixed/a.txt": "a",
        "mixed/b.csv": "text",
        "schemas/a.csv": "text,id\n",
        "schemas/b.csv": "id,text\n",
        "odd.doc": "a",
        "full/x.txt": "mine",
    }.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    before = sorted(path for path in tmp_path.rglob("*"))
    result = CliRunner().invoke(main, ["corpus", "--input", "in", "--output", "out", *arguments])
    assert result.exit_code == 2, result.output
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_the_command_reports_what_it_did(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(main, ["corpus", "--input", str(source), "--output", str(out), "--num-beams", "1"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{out}: 42 rows in 2 files, ")
    assert "Warning: 2 rows were not translated: see *.poisoned.jsonl" in result.stderr
    job = json.loads((out / "_seq2edge/job.json").read_text(encoding="utf-8"))
    assert job["options"] == {"num_beams": 1}
    assert job["files"].keys() == {"a.jsonl", "b.jsonl"}
    with Translator(threads=1) as translator:
        assert job["model"] == fingerprint(translator.manifest)
    report = json.loads((out / "_seq2edge/report.json").read_text(encoding="utf-8"))
    assert (report["rows"], report["poisoned"]) == (42, 2)
    assert "is not empty" not in result.stderr
    again = CliRunner().invoke(main, ["corpus", "--input", str(source), "--output", str(out), "--num-beams", "1"])
    assert again.exit_code == 2
    assert "continue it with --resume" in again.stderr


def test_a_worker_takes_tables_frames_and_dicts(sentences: list[str], expected: list[str]) -> None:
    import pandas
    import pyarrow

    work = pickle.loads(pickle.dumps(worker(num_beams=1, keep=["notes"])))
    some = [sentences[0], None, sentences[1]]
    wanted = [expected[0], None, expected[1]]
    assert work({"text": some})["translation"] == wanted
    assert work(pyarrow.table({"text": some}))["translation"].to_pylist() == wanted
    frame = work(pandas.DataFrame({"text": some}, dtype=object))
    assert [value if isinstance(value, str) else None for value in frame["translation"]] == wanted
    assert work({"text": some})["translation_notes"] == [[], ["is empty, not a text"], []]


@pytest.mark.parametrize(("package", "engine"), [("pyarrow", "local"), ("ray", "ray")])
def test_a_missing_package_is_one_sentence_that_names_the_extra(
    tmp_path: Path, source: Path, package: str, engine: str
) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from seq2edge.cli.main import run_process; run_process()"
    command = ["corpus", "--input", source, "--output", tmp_path / "out", "--engine", engine]
    done = subprocess.run([sys.executable, "-c", code, *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: this needs {package}, which is not installed")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_translator_that_is_pickled_names_the_worker() -> None:
    with Translator(threads=1) as translator, pytest.raises(TypeError, match=r"seq2edge\.corpus\.worker"):
        pickle.dumps(translator)


def test_a_corpus_that_vanishes_is_an_error(tmp_path: Path, source: Path) -> None:
    job = plan(str(source), str(tmp_path / "out"), worker(num_beams=1))
    (source / "a.jsonl").unlink()
    with pytest.raises(DataError, match=r"a\.jsonl cannot be used"):
        run(job)
