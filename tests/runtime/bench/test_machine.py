"""The description of the machine, and the memory of a process."""

from pathlib import Path

from seq2edge.bench.environment import describe_environment
from seq2edge.bench.system import peak_memory

CPU = """processor\t: 0
model name\t: Some CPU @ 2.00GHz
flags\t\t: fpu avx2 sse amx_int8 avx512_vnni

processor\t: 1
model name\t: Another
"""


def test_the_cpu_is_named_with_the_flags_that_matter(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(CPU, encoding="utf-8")
    found = describe_environment(tmp_path / "cpuinfo")
    assert found.cpu == "Some CPU @ 2.00GHz"
    assert found.flags == ("avx2", "avx512_vnni", "amx_int8")


def test_versions_and_cores_are_this_machines() -> None:
    found = describe_environment()
    assert {"seq2edge", "onnxruntime", "numpy"} <= found.versions.keys()
    assert 1 <= found.allowed_cores <= found.cores


def test_a_machine_without_such_files_is_described_too(tmp_path: Path) -> None:
    assert describe_environment(tmp_path / "none").flags == ()


def test_the_peak_is_read_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("VmPeak:\t 9 kB\nVmHWM:\t  1234 kB\n", encoding="utf-8")
    assert peak_memory(tmp_path / "status") == 1234 * 1024
