"""The libraries that a shared library needs are read from its file."""

import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

from seq2edge.devices.execution_providers import cuda_libraries, missing_libraries, needed_libraries

LIBRARY = next((Path(onnxruntime.__file__).parent / "capi").glob("onnxruntime_pybind11_state*.so"), None)


@pytest.mark.skipif(sys.platform != "linux" or LIBRARY is None, reason="shared libraries have other formats elsewhere")
def test_the_needed_libraries_are_those_that_the_loader_resolves() -> None:
    assert LIBRARY is not None
    names = needed_libraries(LIBRARY.read_bytes())
    assert "libc.so.6" in names
    shown = subprocess.run(["ldd", LIBRARY], capture_output=True, text=True, check=True).stdout
    assert all(name in shown for name in names)


def test_a_provider_that_is_not_installed_needs_nothing() -> None:
    assert cuda_libraries("CPUExecutionProvider") == {}
    assert missing_libraries("CPUExecutionProvider") == []
