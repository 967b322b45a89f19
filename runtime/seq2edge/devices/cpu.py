"""Count the CPUs that this process may use, also inside a container."""

import os
from collections.abc import Iterator
from pathlib import Path

MEMBERSHIP = Path("/proc/self/cgroup")  # the cgroups of the process, one per line: number:controllers:path
MOUNT = Path("/sys/fs/cgroup")


def allowed_cpus(*, membership: Path = MEMBERSHIP, mount: Path = MOUNT) -> int:
    """Return the number of CPUs in the affinity of the process, or the quota of its cgroups if that is lower."""
    return min([_cpus_of_affinity(), *cgroup_quotas(membership, mount)])


def share_cpus(workers: int | None, threads: int | None, *, many: bool) -> tuple[int, int | None]:
    """Choose the numbers of workers and threads that are None: workers for many texts, threads for a few."""
    if workers is None:
        workers = max(1, allowed_cpus() // (threads or 1)) if many else 1
    return workers, threads


def cgroup_quotas(membership: Path, mount: Path) -> list[int]:
    """Return the CPU quotas of the cgroups of the process and their parents, rounded up; no limit gives no entry."""
    quotas = (_quota(folder) for folder in cgroup_folders(membership, mount, "cpu"))
    return [quota for quota in quotas if quota is not None]


def _cpus_of_affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cgroup_folders(membership: Path, mount: Path, controller: str) -> Iterator[Path]:
    """Yield the folders that may hold a limit of the process, from the root of each mount down, existing or not.

    A container often sees its own group as the root, while ``membership`` has the path on the host.
    """
    for line in _read(membership).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":  # version 2
            tops = [mount, mount / "unified"]
        elif controller in controllers.split(","):  # version 1
            tops = [mount / controllers, mount / controller]
        else:
            continue
        parts = [part for part in path.split("/") if part]
        depth = 0 if ".." in parts else len(parts)  # a group that the container cannot see
        for top in tops:
            yield from (top.joinpath(*parts[:length]) for length in range(depth + 1))


def _quota(folder: Path) -> int | None:
    version_1 = f"{_read(folder / 'cpu.cfs_quota_us')} {_read(folder / 'cpu.cfs_period_us')}"
    fields = (_read(folder / "cpu.max") or version_1).split()
    try:
        quota, period = map(int, fields)
    except ValueError:  # no such files, or "max"
        return None
    if quota <= 0 or period <= 0:  # -1 means no limit
        return None
    return -(-quota // period)  # rounded up, so at least 1


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except (OSError, ValueError):  # an unreadable file sets no limit
        return ""
