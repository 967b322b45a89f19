"""A process may use the CPUs of its affinity, or fewer if its container has a quota."""

import os
from pathlib import Path

import pytest

from seq2edge.devices.cpu import allowed_cpus, cgroup_quotas


class Tree:
    """A system's cgroup files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.membership, self.mount = folder / "proc-self-cgroup", folder / "cgroup"

    def member(self, *lines: str) -> None:
        self.membership.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def write(self, name: str, content: str | bytes) -> None:
        path = self.mount / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def quotas(self) -> list[int]:
        return cgroup_quotas(self.membership, self.mount)

    def allowed(self) -> int:
        return allowed_cpus(membership=self.membership, mount=self.mount)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def test_without_cgroups_the_affinity_counts(tree: Tree) -> None:
    assert tree.quotas() == []
    assert tree.allowed() == affinity()


def test_this_process_gets_at_least_one_and_at_most_its_affinity() -> None:
    assert 1 <= allowed_cpus() <= affinity()


@pytest.mark.parametrize(("content", "cpus"), [("150000 100000\n", 2), ("200000 100000", 2), ("1000 100000", 1)])
def test_a_part_of_a_cpu_counts_as_one(tree: Tree, content: str, cpus: int) -> None:
    tree.member("0::/job")
    tree.write("job/cpu.max", content)
    assert tree.quotas() == [cpus]


def test_the_smallest_quota_of_all_groups_around_the_process_wins(tree: Tree) -> None:
    tree.member("0::/user/session/job")
    tree.write("user/cpu.max", "100000 100000\n")
    tree.write("user/session/cpu.max", "max 100000\n")
    tree.write("user/session/job/cpu.max", "800000 100000\n")
    tree.write("user/other/cpu.max", "10000 100000\n")  # not ours
    assert tree.quotas() == [1, 8]
    assert tree.allowed() == 1


def test_a_quota_above_the_affinity_gives_the_affinity(tree: Tree) -> None:
    tree.member("0::/")
    tree.write("cpu.max", "9999900000 100000\n")
    assert tree.allowed() == affinity()


@pytest.mark.parametrize("path", ["/docker/0123abc", "/../../host/job", "/"])
def test_a_container_that_sees_its_group_as_the_root_is_limited_by_the_root(tree: Tree, path: str) -> None:
    tree.member(f"0::{path}")
    tree.write("cpu.max", "300000 100000\n")
    assert tree.quotas() == [3]


def test_a_path_never_leads_out_of_the_mount(tree: Tree) -> None:
    tree.member("0::/../outside")
    tree.write("../outside/cpu.max", "100000 100000\n")
    assert tree.quotas() == []


@pytest.mark.parametrize("folder", ["cpu,cpuacct", "cpu"])
def test_version_1_is_understood_wherever_its_controller_is_mounted(tree: Tree, folder: str) -> None:
    tree.member("5:memory:/job", "4:cpu,cpuacct:/docker/job", "0::/job")
    tree.write(f"{folder}/docker/job/cpu.cfs_quota_us", "250000\n")
    tree.write(f"{folder}/docker/job/cpu.cfs_period_us", "100000\n")
    tree.write("memory/job/cpu.cfs_quota_us", "100000\n")  # not the controller of CPUs
    tree.write("memory/job/cpu.cfs_period_us", "100000\n")
    assert tree.quotas() == [3]


def test_minus_one_in_version_1_means_no_limit(tree: Tree) -> None:
    tree.member("4:cpu,cpuacct:/")
    tree.write("cpu/cpu.cfs_quota_us", "-1\n")
    tree.write("cpu/cpu.cfs_period_us", "100000\n")
    assert tree.quotas() == []


@pytest.mark.parametrize(
    "content",
    [
        "",
        "max",
        "max 9",
        "100000",
        "100000 0",
        "100000 -5",
        "0 100000",
        "1.5 1",
        "a b",
        "1 2 3",
        "9" * 5000 + " 1",
        b"\xff \0",
    ],
)
def test_an_invalid_quota_sets_no_limit(tree: Tree, content: str | bytes) -> None:
    tree.member("0::/job")
    tree.write("job/cpu.max", content)
    assert tree.quotas() == []


def test_a_folder_in_place_of_a_file_sets_no_limit(tree: Tree) -> None:
    (tree.mount / "cpu.max").mkdir(parents=True)
    tree.member("0::/")
    assert tree.quotas() == []


@pytest.mark.parametrize(
    "content", [b"", b"\n\n:::::", b"0::", b"no colon", b"\xff:\xfe:\xfd", b"0::/a\x00b", b"0::/" + b"x" * 9999]
)
def test_an_invalid_list_of_groups_is_ignored(tree: Tree, content: bytes) -> None:
    tree.membership.write_bytes(content)
    assert tree.quotas() == []
