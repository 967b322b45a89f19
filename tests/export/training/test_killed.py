"""Kill runs with SIGKILL, from outside or while they write a file, and resume them."""

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seq2edge_export.training.config import Job
from seq2edge_export.training.loop import train

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL"),
    pytest.mark.usefixtures("quick_curves"),
]
MakeJob = Callable[..., Job]

# Run commands in child processes that kill themselves when a file of a given name is about to be renamed for the n-th
# time, half written. They are forks of one process, as importing PyTorch takes longer than the runs.
DRIVER = """
import json, os, pathlib, signal, sys, traceback
import sacrebleu.metrics.bleu, torch._dynamo  # imported by the first evaluation and update
import seq2edge_export.cli.train, seq2edge_export.training.report, seq2edge_export.training.loop
from seq2edge.cli.main import main
from seq2edge.bundle.atomic_files import replaced_file

def draw(history, path):  # matplotlib would take most of the time
    with replaced_file(path) as new:
        new.write_bytes(b"\\x89PNG")

seq2edge_export.training.loop.draw_curves = draw

def die_at(name, times):
    rename, seen = pathlib.Path.replace, 0
    def replace(new, target):
        nonlocal seen
        seen += target.name.startswith(name)
        if seen == times:
            os.truncate(new, new.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(new, target)
    pathlib.Path.replace = replace

def run(name, times, arguments):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.dup2(2, 1)
    try:
        die_at(name, times)
        main(arguments, standalone_mode=False)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)

for line in sys.stdin:
    print(run(*json.loads(line)), flush=True)
"""

MOMENTS = {
    "while the vocabulary is written": ("tokenizer.model", 1),
    "while the config is written": ("config.json", 1),
    "while the first state is written": ("state.pt", 1),
    "while a state is written": ("state.pt", 2),
    "while weights are written": ("weights-", 2),
    "while the checkpoint is written": ("model.safetensors", 2),
    "while the card is written": ("README.md", 1),
    "while the table is written": ("log.csv", 2),
    "while the picture is written": ("curves.png", 3),
    "while the last state is written": ("state.pt", 6),
}
STARTS = list(MOMENTS)[:3]  # there is no state yet, so a new run may start


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, make_job: MakeJob, nobody: Any) -> dict[str, Any]:
    """Return the files of an uninterrupted run."""
    job = make_job(tmp_path_factory.mktemp("whole") / "out")
    train(job, resume=False, observer=nobody)
    return content(job.output)


@pytest.fixture(scope="module")
def driver() -> Any:
    """Yield a function that runs a command until it is killed and returns its exit code."""
    with subprocess.Popen([sys.executable, "-c", DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

        def run(name: str, times: int, arguments: list[str]) -> int:
            process.stdin.write(json.dumps([name, times, arguments]).encode() + b"\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        yield run


def content(output: Path) -> dict[str, Any]:
    """Return every file of a run by name, without values that depend on time."""
    kept = {path.name: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    table = csv.DictReader(kept.pop("log.csv").decode().splitlines())
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in table]
    picture = kept["curves.png"].startswith(b"\x89PNG")
    return {**kept, "log.csv": rows, "curves.png": picture, "state.pt": "contains the seconds"}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_ends_with_the_same_files_when_resumed(
    moment: str,
    tmp_path: Path,
    driver: Any,
    arguments: Callable[..., list[str]],
    make_job: MakeJob,
    whole: Any,
    nobody: Any,
) -> None:
    assert driver(*MOMENTS[moment], arguments(tmp_path / "out")) == -signal.SIGKILL
    train(make_job(tmp_path / "out"), resume=True, observer=nobody)
    assert content(tmp_path / "out") == whole


@pytest.mark.parametrize("moment", STARTS)
def test_a_run_killed_before_its_first_state_can_be_started_again(
    moment: str, tmp_path: Path, driver: Any, arguments: Callable[..., list[str]], make_job: MakeJob, nobody: Any
) -> None:
    assert driver(*MOMENTS[moment], arguments(tmp_path / "out")) == -signal.SIGKILL
    train(make_job(tmp_path / "out", seed=2, max_steps=1), resume=False, observer=nobody)


def test_a_run_killed_several_times_ends_with_the_same_files(
    tmp_path: Path, driver: Any, arguments: Callable[..., list[str]], whole: Any
) -> None:
    command, deaths = [*arguments(tmp_path / "out"), "--resume"], 0
    while driver("state.pt", 2, command):
        deaths += 1
        assert deaths < 10
    assert deaths == 6  # each attempt saves one of the seven states
    assert content(tmp_path / "out") == whole


@pytest.mark.trust
@pytest.mark.parametrize("sign", ["training a vocabulary", "update 4"])
def test_a_command_killed_from_outside_continues_with_resume(
    sign: str, tmp_path: Path, arguments: Callable[..., list[str]], whole: Any
) -> None:
    command = [sys.executable, "-m", "seq2edge", *arguments(tmp_path / "out")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.startswith(sign):
                process.kill()
                break
        process.stderr.read()
        assert process.wait() == -signal.SIGKILL
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "after 12 updates" in done.stdout
    assert content(tmp_path / "out") == whole
