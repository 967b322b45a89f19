"""Run commands in forks of one process that has imported all it needs, each with a fault of its own.

Reads lines of JSON and answers each with one: the exit code, what was said to standard error, and the seconds.
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

    seq2edge_export.training.run.draw_curves = draw  # type: ignore[assignment]
    torch.set_num_threads(1)
    onnx.defs.get_all_schemas()  # a table in C++ that is filled when first needed, and crashes if that fails


def run(task: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as errors:
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            _be_the_command(task, errors.fileno())
        code = _wait(child, task.get("signal"), task.get("after", 0.0), task.get("seconds", 300))
        errors.seek(0)
        return {
            "code": code,
            "errors": errors.read().decode(errors="replace"),
            "seconds": time.monotonic() - started,
        }


def _wait(child: int, number: int | None, after: float, most: float) -> int:
    started, sent = time.monotonic(), False
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        passed = time.monotonic() - started
        if number is not None and not sent and passed >= after and _hears(child):
            os.kill(child, number)
            sent = True
        if passed > most:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -999  # it hung
        time.sleep(0.005)


def _hears(child: int) -> bool:
    """Whether the command has begun: what comes before is Python, not ours, and dies of SIGTERM at once."""
    status = Path(f"/proc/{child}/status").read_text()
    caught = int(next(line for line in status.splitlines() if line.startswith("SigCgt:")).split()[1], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def _be_the_command(task: dict[str, Any], errors: int) -> None:
    from seq2edge.cli.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts us in the background ignores it
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
