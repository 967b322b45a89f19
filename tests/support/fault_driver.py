"""Run commands with injected faults, in forks of one process that has imported everything.

Each line of JSON on standard input is answered with the exit code, the standard error and the seconds.
"""

import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any


def prepare() -> None:
    import onnx.defs
    import torch
    import torch._dynamo
    import torch.onnx

    import seq2edge_export.cli.export
    import seq2edge_export.cli.train
    import seq2edge_export.export
    import seq2edge_export.training.loop
    import seq2edge_export.training.report
    from seq2edge.bundle.atomic_files import replaced_file
    from seq2edge.cli import main  # noqa: F401

    def draw(history: Any, path: Path) -> None:  # matplotlib would take most of the time
        with replaced_file(path) as new:
            new.write_bytes(b"\x89PNG")

    seq2edge_export.training.loop.draw_curves = draw  # type: ignore[assignment]
    torch.set_num_threads(1)
    onnx.defs.get_all_schemas()  # fills a table in C++, which would crash in a fork without memory


def run(task: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as errors:
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            _run_command(task, errors.fileno())
        code = _wait(child, task.get("signal"), task.get("after", 0.0), task.get("seconds", 300))
        errors.seek(0)
        return {
            "code": code,
            "errors": errors.read().decode(errors="replace"),
            "seconds": time.monotonic() - started,
        }


def _wait(child: int, number: int | None, after: float, timeout: float) -> int:
    started, sent = time.monotonic(), False
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        passed = time.monotonic() - started
        if number is not None and not sent and passed >= after and _handles_sigterm(child):
            os.kill(child, number)
            sent = True
        if passed > timeout:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -999  # timeout
        time.sleep(0.005)


def _handles_sigterm(child: int) -> bool:
    """Return whether the command has installed its handler; before that, SIGTERM ends Python at once."""
    status = Path(f"/proc/{child}/status").read_text()
    caught = int(next(line for line in status.splitlines() if line.startswith("SigCgt:")).split()[1], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def _run_command(task: dict[str, Any], errors: int) -> None:
    from seq2edge.cli.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if a shell started this in the background
    os.dup2(errors, 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.environ.update(task.get("environment", {}))
    try:
        _limit(task)
        main(task["arguments"], prog_name="seq2edge")
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 0)
    except BaseException:
        traceback.print_exc()
        os._exit(99)
    os._exit(0)


def _limit(task: dict[str, Any]) -> None:
    if "file_bytes" in task:
        resource.setrlimit(resource.RLIMIT_FSIZE, (task["file_bytes"],) * 2)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if "more_memory" in task:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + task["more_memory"],) * 2)


if __name__ == "__main__":
    prepare()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
