"""Corpora on a server that speaks the protocol of S3, by pyarrow's own client."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from seq2edge.corpus import worker
from seq2edge.corpus.run import plan, run
from seq2edge.corpus.storage import Storage

DRIVER = Path(__file__).with_name("driver.py")
SERVER = Path(__file__).parents[2] / ".venv-s3" / "bin" / "moto_server"  # make test-corpus
pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="there is no server of object storage")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start a server with an empty bucket."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with (tmp_path / "log").open("w") as log:
        command = [SERVER, "-H", "127.0.0.1", "-p", "0"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while not (found := re.search(r"http://(127\.0\.0\.1:\d+)", (tmp_path / "log").read_text(encoding="utf-8"))):
            assert process.poll() is None
        urlopen(Request(f"http://{found[1]}/bucket", method="PUT")).close()
        yield found[1]
    finally:
        process.kill()
        process.wait()


def test_a_killed_run_on_object_storage_is_resumed(
    tmp_path: Path, host: str, sentences: list[str], expected: list[str]
) -> None:
    query = f"?endpoint_override={host}&scheme=http&region=us-east-1"
    bucket = Storage(f"s3://bucket{query}")
    with bucket.write("in/a.txt.gz") as file:
        file.write(("\n".join(sentences) + "\n").encode())
    source, target = f"s3://bucket/in/*.gz{query}", f"s3://bucket/out{query}"
    killed = subprocess.Popen([sys.executable, DRIVER, source, target], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    assert [killed.stdout.readline()[:4] for _ in range(4)] == ["rows"] * 4
    killed.kill()
    killed.communicate()
    assert bucket.size("out/a.txt.gz") is None
    report = run(plan(source, target, worker(num_beams=1)), resume=True)
    assert report.rows == len(sentences)
    with bucket.read("out/a.txt.gz") as file:
        assert file.read().decode().splitlines() == expected
    assert [name for name in bucket.files() if "out" in name] == ["out/a.txt.gz"]
    assert bucket.files("out/_seq2edge").keys() == {"job.json", "report.json"}
