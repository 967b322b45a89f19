"""Graphs that are valid and compute for hours: a signal or a time limit ends them."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import onnx
import pytest
from hostile_bundle import change_graph, copy_bundle, slow_down

from seq2edge import Translator
from seq2edge.bundle import tensor_names
from seq2edge.errors import TimeLimitError
from seq2edge.search import Scores

pytestmark = pytest.mark.trust
HOUR = 3600
MANY_NODES = partial(slow_down, side=1, products=4000)  # 2 GFLOP each
LARGE_NODES = partial(slow_down, side=6, products=100)  # 432 GFLOP each, which no flag interrupts
TEXTS = ["nobody sees a red house", "the old man"]


def slow_bundle(folder: Path, source: Path, change: Callable[[onnx.ModelProto], None], name: str) -> Path:
    copy_bundle(folder, source)
    change_graph(folder, change, name)
    return folder


@pytest.fixture(scope="module")
def slow(bundles: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return slow_bundle(tmp_path_factory.mktemp("slow") / "b", bundles / "ort-fp32", MANY_NODES, tensor_names.ENCODER)


@pytest.fixture(scope="module")
def stuck(bundles: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return slow_bundle(tmp_path_factory.mktemp("stuck") / "b", bundles / "ort-fp32", LARGE_NODES, tensor_names.ENCODER)


def start(bundle: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "seq2edge", "translate", "-m", str(bundle), *TEXTS, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until_computing(process: subprocess.Popen[str]) -> None:
    """Wait until the process has used far more of the CPU than loading the bundle takes."""
    while process.poll() is None:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        if (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") > 6:
            return
        time.sleep(0.05)


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError("the command does not end") from None
    return process.returncode, out, err


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", ["slow", "stuck"])
def test_a_signal_ends_a_command_that_computes(
    kind: str, number: signal.Signals, workers: int, request: pytest.FixtureRequest
) -> None:
    process = start(request.getfixturevalue(kind), f"--workers={workers}", "--threads=1")
    wait_until_computing(process)
    process.send_signal(number)
    code, out, err = finished(process)
    assert (code, out) == (128 + number, "")
    assert err.strip() in ("stopped", "")


@pytest.mark.parametrize("kind", ["slow", "stuck"])
def test_a_command_ends_at_its_time_limit(kind: str, request: pytest.FixtureRequest) -> None:
    code, out, err = finished(start(request.getfixturevalue(kind), "--time-limit=1"))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("Error: the computation took longer than the time limit of 1 s")


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", ["ort-fp32", "portable-fp32"])
@pytest.mark.parametrize("graph", [tensor_names.ENCODER, tensor_names.DECODER, tensor_names.SCORER])
def test_a_call_ends_at_its_time_limit(graph: str, name: str, workers: int, bundles: Path, tmp_path: Path) -> None:
    folder = slow_bundle(tmp_path / "bundle", bundles / name, MANY_NODES, graph)
    with Translator(folder, threads=1, workers=workers, time_limit=0.5) as translator:
        for _ in range(2):  # the first one leaves nothing behind that ends the second
            with pytest.raises(TimeLimitError, match=r"the time limit of 0\.5 s"):
                translator.score(TEXTS, TEXTS) if graph == tensor_names.SCORER else translator.translate(TEXTS)
        if graph != tensor_names.SCORER:
            with pytest.raises(TimeLimitError):
                list(translator.stream(TEXTS[0]))


def wait_for_the_limit(rows: object, tokens: object, scores: Scores) -> Scores:
    """A hook that returns when the time of its call is up, however busy the machine is."""
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()
    return scores


def test_a_limit_ends_only_the_call_that_exceeds_it(bundles: Path) -> None:
    with Translator(bundles / "ort-fp32", threads=1) as free:
        wanted = free.translate(TEXTS)
    with Translator(bundles / "ort-fp32", threads=1, time_limit=HOUR) as limited:
        assert limited.translate(TEXTS) == wanted
        assert "".join(limited.stream(TEXTS[0])) == wanted[0].text
        limited.time_limit = 0.01
        with pytest.raises(TimeLimitError):
            limited.translate(TEXTS, hook=wait_for_the_limit)
        limited.time_limit = HOUR
        assert limited.translate(TEXTS) == wanted
