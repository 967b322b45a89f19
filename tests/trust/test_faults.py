"""Every command under every fault: what it makes is complete or absent, work goes on again, errors are one line.

SEQ2EDGE_TRUST=full tries many more moments.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fault_driver
import pytest

from material import material
from seq2edge.bundle.bundle import load_bundle

pytestmark = [pytest.mark.trust, pytest.mark.skipif(sys.platform != "linux", reason="needs fork and mount")]
SIGNALS = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}
CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
SENTENCE = "the red blue old new cat dog bird sees likes finds"
WORDS = SENTENCE.split()
LINES = 400
Run = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Command:
    """A command, the name of what it makes, and how it goes on after a fault."""

    arguments: Callable[[Path], list[str]]  # given the folder to write to
    output: str
    again: tuple[str, ...] = ()


def bundle() -> Path:
    return material() / "bundles" / "ort-fp32"


SETTINGS = (
    "--vocabulary=290 --width=16 --heads=2 --encoder-layers=1 --decoder-layers=1 --feed-forward=32 --max-positions=64 "
    "--batch-tokens=512 --warmup-steps=5 --max-steps=12 --evaluate-every=4 --save-every=3 --average=2 --device=cpu "
    "--precision=fp32 --threads=1"
)
TRAINING = SETTINGS.split()
COMMANDS = {
    "train": Command(
        lambda to: ["train", f"--train={to}/../train.tsv", f"--dev={to}/../dev.tsv", f"--output={to}/made", *TRAINING],
        "made",
        ("--resume",),
    ),
    "export": Command(
        lambda to: ["export", str(material() / "checkpoints" / "seq2edge"), str(to / "made"), "--no-verify"], "made"
    ),
    "quantize": Command(
        lambda to: ["quantize", str(bundle()), str(to / "made"), "--precision=int8", "--no-verify"], "made"
    ),
    "translate": Command(
        lambda to: [
            *("translate", "-m", str(bundle()), "-i", f"{to}/../lines.txt", "-o", f"{to}/made", "--num-beams=2"),
            *("--threads=1", "--workers=1"),
        ],
        "made",
        ("--resume",),
    ),
}


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Runs a command with a fault, and tells how it ended."""
    program = [sys.executable, fault_driver.__file__]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

        def one(arguments: list[str], **fault: Any) -> dict[str, Any]:
            process.stdin.write(json.dumps({"arguments": arguments, **fault}) + "\n")
            process.stdin.flush()
            found: dict[str, Any] = json.loads(process.stdout.readline())
            return found

        yield one
        process.stdin.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands read; each writes to a folder inside."""
    folder, chance = tmp_path_factory.mktemp("faults"), random.Random(3)

    def sentence() -> str:
        return " ".join(chance.choice(WORDS) for _ in range(6))

    for name, count in (("train.tsv", 100), ("dev.tsv", 8)):
        lines = (sentence() for _ in range(count))
        (folder / name).write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines), encoding="utf-8")
    (folder / "lines.txt").write_text("".join(f"{sentence()}\n" for _ in range(LINES)), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def undisturbed(run: Run, place: Path) -> dict[str, tuple[dict[str, bytes], float]]:
    """What each command makes when nothing happens, and how long it takes."""
    found = {}
    for name, command in COMMANDS.items():
        (place / f"sound-{name}").mkdir()
        done = run(command.arguments(place / f"sound-{name}"))
        assert done["code"] == 0, done["errors"]
        found[name] = (content(place / f"sound-{name}" / command.output), done["seconds"])
    return found


def content(path: Path) -> dict[str, bytes]:
    """All files of what was made, but those that hold times of the day or of the work."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {file.name: file.read_bytes() for file in files if file.name not in ("state.pt", "log.csv")}


def check_whole_or_absent(name: str, made: Path, wanted: dict[str, bytes]) -> None:
    if name == "train" or not made.exists():
        return  # a training grows; that it goes on is what counts
    if name == "translate":
        assert content(made) == wanted
    else:
        load_bundle(made)


def check_goes_on(run: Run, name: str, folder: Path, wanted: dict[str, bytes]) -> None:
    """The same command again ends as if nothing had happened, and leaves nothing behind."""
    command = COMMANDS[name]
    arguments = [*command.arguments(folder), *command.again]
    if name in ("export", "quantize"):
        arguments.append("--force")
    done = run(arguments)
    assert done["code"] == 0, done["errors"]
    assert content(folder / command.output) == wanted
    assert [path.name for path in folder.iterdir()] == [command.output]


@pytest.mark.parametrize("how", SIGNALS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_ended_at_any_moment_can_be_given_again(
    name: str, how: str, run: Run, place: Path, undisturbed: Any, full: bool
) -> None:
    wanted, seconds = undisturbed[name]
    moments = 12 if full else 2
    ended = 0
    for moment in range(moments):
        folder = place / f"{name}-{how.split()[0]}-{moment}"
        folder.mkdir()
        after = seconds * (moment + 0.5) / moments
        done = run(COMMANDS[name].arguments(folder), signal=SIGNALS[how], after=after)
        assert done["code"] in (0, CODES[SIGNALS[how]]), done
        assert "Traceback" not in done["errors"]
        ended += done["code"] != 0
        check_whole_or_absent(name, folder / "made", wanted)
        check_goes_on(run, name, folder, wanted)
        shutil.rmtree(folder)
    assert ended > 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, whose size and rights can be changed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("this user may not mount")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", disk], check=True)


def check_refused(done: dict[str, Any]) -> None:
    lines = [line for line in done["errors"].splitlines() if line.startswith("Error")]
    assert done["code"] == 2, done
    assert len(lines) == 1, done["errors"]
    assert "Traceback" not in done["errors"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_one_sentence_and_the_work_goes_on_when_there_is_room(
    name: str, run: Run, place: Path, small_disk: Path, undisturbed: Any
) -> None:
    for file in ("train.tsv", "dev.tsv", "lines.txt"):
        shutil.copyfile(place / file, small_disk.parent / file)
    folder = small_disk / "work"
    folder.mkdir()
    for file in ("train.tsv", "dev.tsv", "lines.txt"):
        (small_disk / file).symlink_to(place / file)
    if name == "translate":  # which writes little: leave it less
        (small_disk / "ballast").write_bytes(bytes(56_000))
    done = run(COMMANDS[name].arguments(folder))
    check_refused(done)
    check_whole_or_absent(name, folder / "made", undisturbed[name][0])
    (small_disk / "ballast").unlink(missing_ok=True)
    remount(small_disk, "size=64m")
    check_goes_on(run, name, folder, undisturbed[name][0])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_that_cannot_be_written_is_one_sentence(name: str, run: Run, place: Path, small_disk: Path) -> None:
    for file in ("train.tsv", "dev.tsv", "lines.txt"):
        (small_disk / file).symlink_to(place / file)
    (small_disk / "work").mkdir()
    remount(small_disk, "ro")
    check_refused(run(COMMANDS[name].arguments(small_disk / "work")))
    assert not list((small_disk / "work").iterdir())


@pytest.mark.parametrize("megabytes", [0, 4, 30])
@pytest.mark.parametrize("name", COMMANDS)
def test_too_little_memory_is_one_sentence_or_enough(
    name: str, megabytes: int, run: Run, place: Path, undisturbed: Any
) -> None:
    folder = place / f"{name}-memory-{megabytes}"
    folder.mkdir()
    done = run(COMMANDS[name].arguments(folder), more_memory=megabytes * 10**6)
    if name == "train" and done["code"] == -signal.SIGABRT:
        assert "Check failure stack trace" in done["errors"]  # SentencePiece's trainer ends the process by itself
    elif done["code"] != 0:
        check_refused(done)
    check_whole_or_absent(name, folder / "made", undisturbed[name][0])
    check_goes_on(run, name, folder, undisturbed[name][0])
    shutil.rmtree(folder)


def test_a_lost_network_is_one_sentence(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "hub"), "HF_HUB_DISABLE_TELEMETRY": "1"}
    done = run(["export", "nobody/no-model", str(tmp_path / "made")], environment=nowhere)
    check_refused(done)
    assert not (tmp_path / "made").exists()
