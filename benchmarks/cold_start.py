"""Measure the cold start: the time of a process that runs `seq2edge translate "Hello"` with the default model.

    python benchmarks/cold_start.py [--rounds 20] [--quick]        rows go to benchmarks/results/cold_start.jsonl

Compared, in turns, with an empty Python, the imports of the runtime's dependencies, and CTranslate2 with the same
weights. Python may keep compiled modules, as it does for an installed package. CPU time depends less on what else the
machine does. The resident memory is that of a separate process when it has imported or loaded everything, before it
translates (Linux).
"""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click

import models
import results
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.peers.ctranslate2_writer import write_model

TEXT = "Hello"
QUICK_ROUNDS = 2
IMPORTS = "import numpy, onnxruntime, sentencepiece\n"
LOAD = "from seq2edge import Translator\ntranslator = Translator(threads=1)\n"
LOAD_CTRANSLATE2 = """
import sys
sys.modules["torch"] = None  # which CTranslate2 imports if it is installed, but does not need
import ctranslate2, sentencepiece
folder, pieces, text = sys.argv[1:]
tokenizer = sentencepiece.SentencePieceProcessor(model_file=pieces)
translator = ctranslate2.Translator(folder, compute_type="int8", inter_threads=1, intra_threads=1)
"""
CTRANSLATE2 = (
    LOAD_CTRANSLATE2
    + """
ids = [*tokenizer.encode(text), 3]
[found] = translator.translate_batch([[str(number) for number in ids]], beam_size=4)
print(tokenizer.decode([int(number) for number in found.hypotheses[0]]))
"""
)
RESIDENT = "print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmRSS')))"  # kilobytes
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@click.command()
@click.option("--rounds", default=20, show_default=True, help="How often each process is started.")
@click.option("--quick", is_flag=True, help="Only check that it runs.")
def main(rounds: int, quick: bool) -> None:
    """Start each process in turns."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        write_model(load_checkpoint(models.DEFAULT_CHECKPOINT).source_model(), folder, precision="int8")
        arguments = [str(folder), str(models.DEFAULT_CHECKPOINT / "tokenizer.model"), TEXT]
        commands = {
            "seq2edge translate": ["-m", "seq2edge", "translate", "--threads", "1", TEXT],
            "Translator() of seq2edge": ["-c", LOAD],
            "CTranslate2 and SentencePiece": ["-c", CTRANSLATE2, *arguments],
            "importing numpy, onnxruntime, sentencepiece": ["-c", IMPORTS],
            "seq2edge --help": ["-m", "seq2edge", "--help"],
            "an empty Python": ["-c", "pass"],
        }
        resident = {
            "Translator() of seq2edge": ["-c", LOAD + RESIDENT],
            "CTranslate2 and SentencePiece": ["-c", LOAD_CTRANSLATE2 + RESIDENT, *arguments],
            "importing numpy, onnxruntime, sentencepiece": ["-c", IMPORTS + RESIDENT],
            "an empty Python": ["-c", RESIDENT],
        }
        times = alternate(commands, QUICK_ROUNDS if quick else rounds)
        memory = {name: 1024 * int(run(one)[0]) for name, one in resident.items()} if sys.platform == "linux" else {}
    machine = results.machine()
    rows = [
        {
            "work": name,
            "best": min(wall for wall, _ in measured),
            "median": median(wall for wall, _ in measured),
            "worst": max(wall for wall, _ in measured),
            "cpu": min(cpu for _, cpu in measured),
            "resident_bytes": memory.get(name),
            "machine": machine,
        }
        for name, measured in times.items()
    ]
    for row in rows:
        print(f"{row['work']}: best {row['best']:.3f} s, CPU {row['cpu']:.3f} s, {row['resident_bytes']} bytes")
    results.write("cold_start", rows, quick=quick)


def alternate(commands: dict[str, list[str]], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Return the wall time and the CPU time of every process."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, arguments in commands.items():
            started = time.perf_counter()
            _, cpu = run(arguments)
            if number:  # not the first round, which reads files from disk and compiles modules
                times[name].append((time.perf_counter() - started, cpu))
    return times


def run(arguments: list[str]) -> tuple[bytes, float]:
    """Return the output and the CPU time of a process."""
    before = _cpu_time()
    done = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, check=True, env=ENVIRONMENT)
    return done.stdout, _cpu_time() - before


def _cpu_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
