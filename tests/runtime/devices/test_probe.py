"""Devices are tried in separate processes, which may crash."""

import os
import sys
from pathlib import Path

import pytest

from seq2edge.devices import probe as module
from seq2edge.devices.probe import probe, probe_here, run_child
from seq2edge.devices.registry import CPU, DEVICES

# Python runs this before anything else: a provider whose code the CPU cannot run without the workaround.
CRASHING = """
import os, signal, sys
if "seq2edge.devices.probe" in sys.orig_argv and os.environ.get("ONEDNN_MAX_CPU_ISA") != "AVX512_CORE":
    os.kill(os.getpid(), signal.SIGILL)
"""


def child(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_the_cpu_works() -> None:
    found = probe(CPU)
    assert (found.works, found.problem) == (True, "")
    assert found.milliseconds is not None
    assert found.milliseconds > 0


def test_a_device_that_is_not_installed_is_reported_by_the_child() -> None:
    found = probe(DEVICES["directml"])
    assert not found.works
    assert "not installed" in found.problem


@pytest.mark.parametrize(
    ("signal", "words"),
    [("SIGILL", "an illegal instruction"), ("SIGSEGV", "an invalid memory access"), ("SIGABRT", "an abort")],
)
def test_a_crash_is_named(signal: str, words: str) -> None:
    found = run_child(child(f"import os, signal; os.kill(os.getpid(), signal.{signal})"))
    assert (found.works, found.problem) == (False, f"it crashes with {words} ({signal})")


def test_an_illegal_instruction_comes_with_the_workaround_that_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(CRASHING, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    found = probe(DEVICES["openvino"])
    assert (found.works, found.problem) == (False, "it crashes with an illegal instruction (SIGILL)")
    assert found.workaround.startswith("ONEDNN_MAX_CPU_ISA=AVX512_CORE in the environment ")
    assert probe(CPU).workaround == ""  # there is none


def test_a_child_that_hangs_or_writes_no_json_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        "ended with code 3 (oh)"
        in run_child(child("import sys; print('x'); sys.stderr.write('oh'); sys.exit(3)")).problem
    )
    assert "no error message" in run_child(child("pass")).problem
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    assert "did not answer" in run_child(child("import time; time.sleep(60)")).problem


def test_results_less_accurate_than_float32_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOLERANCE", 0.0)  # as if a provider had rounded
    found = probe_here(CPU)
    assert not found.works
    assert "differ from float32" in found.problem
