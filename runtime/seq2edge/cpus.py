"""How many CPUs this process may really use; needs nothing."""

import os


def allowed_cpus() -> int:
    """CPUs of the process's affinity where the system has such a thing, else of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
