"""What the doctor reports for this machine and others."""

import json
import subprocess
import sys
from dataclasses import replace

from seq2edge.bench.environment import describe_environment
from seq2edge.cli.doctor import advise, describe, examine
from seq2edge.devices.probe import Probe
from seq2edge.devices.registry import CPU, DEVICES

WORKS = Probe(works=True, milliseconds=10.0)
CRASHES = Probe(works=False, problem="it crashes with an illegal instruction (SIGILL)", workaround="X=1 works")


def test_the_command_tries_this_machine() -> None:
    done = subprocess.run([sys.executable, "-m", "seq2edge", "doctor", "--json"], capture_output=True, check=True)
    health = json.loads(done.stdout)
    devices = {one["name"]: one for one in health["devices"]}
    assert devices.keys() == DEVICES.keys()
    assert devices["cpu"]["works"]
    assert health["advice"]["threads"] == health["machine"]["allowed_cores"]
    assert health["features"].keys() == {"AVX2", "AVX-512", "VNNI", "AMX", "bf16"}


def test_every_device_has_a_line_with_what_to_do() -> None:
    text = describe(examine(try_device=lambda device: WORKS if device is CPU else CRASHES))
    for name in DEVICES:
        [line] = [line for line in text.splitlines() if line.startswith(f"device {name} ")]
        assert "works" in line or "pip" in line or "macOS" in line


def test_a_crash_and_its_workaround_are_shown() -> None:
    health = examine(try_device=lambda device: CRASHES)
    [line] = [line for line in describe(health).splitlines() if line.startswith("device cpu ")]
    assert line.endswith("does not work (built in): it crashes with an illegal instruction (SIGILL); X=1 works")


def test_the_advice_follows_from_the_measurements() -> None:
    machine = replace(describe_environment(), allowed_cores=6, memory_bytes=8 << 30)
    plain = advise({CPU: WORKS}, machine, None)
    assert (plain.device, plain.precision, plain.threads, plain.workers) == ("cpu", "int8", 6, 6)
    assert advise({CPU: WORKS}, machine, 256 << 20).precision == "int4"
    gpu = advise({CPU: WORKS, DEVICES["cuda"]: Probe(works=True, milliseconds=0.5)}, machine, None)
    assert (gpu.device, gpu.precision, gpu.dialect) == ("cuda", "fp16", "portable")
    slow = advise({CPU: WORKS, DEVICES["webgpu"]: Probe(works=True, milliseconds=900.0)}, machine, None)
    assert slow.device == "cpu"
