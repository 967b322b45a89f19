"""The most memory that this process has held; needs nothing."""

import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_memory(status: Path = STATUS) -> int | None:
    """Bytes; None where the system does not say.

    Linux's ``ru_maxrss`` is not asked: a child begins with the peak of its parent there.
    """
    if status.exists():
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return None
