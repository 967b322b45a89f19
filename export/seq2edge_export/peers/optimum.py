"""optimum-onnx in a process of another environment, as it needs an older transformers.

``make optimum`` makes that environment. The process is told what to do over a pipe and times itself.
"""

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from seq2edge.bench.system import Answer, SystemPlan
from seq2edge.bench.workload import Sources
from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import UsageError
from seq2edge_export.peers.interface import generate_arguments

# -P: the script's folder has modules named torch and ctranslate2, which are not to be imported in their place.
INTERPRETER_OPTIONS = ("-P",)
GENERATE = Path(__file__).with_name("generate.py")
INTERPRETER_FILE = "python.txt"  # in the exported folder: which interpreter runs it


def open_peer(plan: SystemPlan) -> "OptimumSystem":
    return OptimumSystem(Path(plan.path), threads=plan.threads)


class OptimumSystem:
    """The other process."""

    def __init__(self, folder: Path, *, threads: int) -> None:
        python = (folder / INTERPRETER_FILE).read_text(encoding="utf-8")
        command = [python, *INTERPRETER_OPTIONS, str(GENERATE), str(folder), str(threads)]
        # a pipe that nobody reads would fill up
        self.said = TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - as long as the process
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True, encoding="utf-8"
        )
        self._read()

    def translate(self, sources: Sources, options: GenerationOptions) -> Answer:
        answer = self._ask(json.dumps({"sources": sources, "arguments": generate_arguments(options)}))
        return Answer(answer["outputs"], answer["seconds"])

    def peak_memory(self) -> int | None:
        peak: int | None = self._ask("peak")
        return peak

    def close(self) -> None:
        self.process.communicate()  # the end of its input is the end of its work
        self.said.close()

    def _ask(self, line: str) -> Any:
        assert self.process.stdin is not None
        print(line, file=self.process.stdin, flush=True)
        return json.loads(self._read())

    def _read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.said.seek(0)
            raise UsageError(f"optimum has ended: {last_line(self.said.read())}")
        return line


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it says nothing"])[-1]
