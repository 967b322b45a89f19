"""Measure the server: requests/s and latency for 1 to 128 clients, merged and not, beside LibreTranslate.

    python benchmarks/serve.py [--libretranslate PYTHON] [--quick]
    python benchmarks/serve.py --soak 600

(default) the default model on its dev sentences; (opus) OPUS-MT from Chinese to English in int8 on the built-in
sentences, beside LibreTranslate with the Argos package that the bundle is made of. Every client sends its next request
when it has its answer. Clients and server share the cores of the machine. LibreTranslate is installed in an
environment of its own, whose interpreter is PYTHON:  pip install torch==2.13.0 libretranslate==1.9.6

--soak keeps 32 clients busy for so many seconds after a first minute, compares every answer with that of the Translator
to the last character, and records the memory of the server.

Each row tells what share of the CPUs other processes took meanwhile (Linux).
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click

import models
import results
from seq2edge import Translator

HERE = Path(__file__).parent
CLIENTS = (1, 8, 32, 128)
SECONDS, QUICK, ROUNDS = 5.0, 0.5, 2
PAGES, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What the clients ask for."""

    name: str
    source: str
    target: str
    texts: list[str]


class Server(NamedTuple):
    """Where a server listens, and its process."""

    port: int
    process: int


@dataclass
class Load:
    """What the clients have seen."""

    seconds: list[float] = field(default_factory=list)
    wrong: int = 0


@click.command()
@click.option("--work", "works", type=click.Choice(("default", "opus")), multiple=True, help="Default: both.")
@click.option("--libretranslate", type=click.Path(path_type=Path), help="Interpreter of its environment.")
@click.option("--soak", type=float, metavar="SECONDS", help="Only keep the default model busy, and check all answers.")
@click.option("--quick", is_flag=True, help="Only check that it runs.")
def main(works: tuple[str, ...], libretranslate: Path | None, soak: float | None, quick: bool) -> None:
    """Run the benchmark."""
    english = (models.DEFAULT_CHECKPOINT / "dev.en").read_text(encoding="utf-8").splitlines()
    default = Workload(name="default", source="en", target="pt", texts=english)
    if soak is not None:
        results.write("serve", [soaked(default, soak)], quick=quick, replacing="soak")
        return
    if not works or "default" in works:
        with ExitStack() as servers:
            rows = measured(default, our_servers(servers, []), quick=quick)
        results.write("serve", rows, quick=quick, replacing="default")
    if "opus" in works or not (works or quick):
        chinese = (HERE / "sentences.zh.txt").read_text(encoding="utf-8").splitlines()
        opus = Workload(name="opus", source="zh", target="en", texts=chinese)
        with ExitStack() as servers:
            systems = our_servers(servers, ["-m", f"zh:en={opus_bundle()}"])
            if libretranslate is not None:
                systems["LibreTranslate"] = servers.enter_context(libretranslate_server(libretranslate))
            rows = measured(opus, systems, quick=quick)
        results.write("serve", rows, quick=quick, replacing="opus")


def opus_bundle() -> Path:
    folder = models.DOWNLOADS / "serve-opus"
    if not (folder / "int8").exists():
        models.opus_model(folder, precisions=("int8",))
    return folder / "int8"


def our_servers(servers: ExitStack, options: list[str]) -> dict[str, Server]:
    """Start a server that merges requests, and one that does not."""
    options_of = {"seq2edge": ["--merge"], "seq2edge, not merged": ["--no-merge"]}
    return {name: servers.enter_context(our_server([*options, *more])) for name, more in options_of.items()}


def measured(work: Workload, servers: dict[str, Server], *, quick: bool) -> list[results.Row]:
    """Measure all systems in turns, so that what else the machine does meets all; keep the best round of each."""
    rows: dict[tuple[str, int], results.Row] = {}
    for server in servers.values():  # warm up: the first request loads the model
        asyncio.run(load(server.port, work, 8, QUICK))
    for clients in CLIENTS:
        for _ in range(ROUNDS):
            for system, server in servers.items():
                row = measured_once(work, system, server, clients, QUICK if quick else SECONDS)
                best = rows.get((system, clients))
                if best is None or row["rate"] > best["rate"]:
                    rows[system, clients] = row
    return list(rows.values())


def measured_once(work: Workload, system: str, server: Server, clients: int, seconds: float) -> results.Row:
    started, used = time.perf_counter(), (cpu_seconds(), cpu_seconds(server.process) + time.process_time())
    seen = asyncio.run(load(server.port, work, clients, seconds))
    wall = time.perf_counter() - started
    own = cpu_seconds(server.process) + time.process_time() - used[1]
    others = max(0.0, cpu_seconds() - used[0] - own) / wall / (os.cpu_count() or 1)
    rate, cuts = len(seen.seconds) / wall, quantiles(seen.seconds, n=100, method="inclusive")
    row = {"work": work.name, "system": system, "clients": clients, "rate": rate}
    row |= {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98], "cpu": own / len(seen.seconds), "others": others}
    print({name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}, flush=True)
    return row | {"machine": results.machine()}


def cpu_seconds(process: int | None = None) -> float:
    """Return the CPU time of a process, or of all."""
    if process is None:
        user, nice, system, _, _, irq, soft = map(int, Path("/proc/stat").read_text().split()[1:8])
        return (user + nice + system + irq + soft) / TICKS
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def load(port: int, work: Workload, clients: int, seconds: float, expected: dict[str, str] | None = None) -> Load:
    """Keep clients busy for a while; count answers that are not the expected ones."""
    seen, until = Load(), time.perf_counter() + seconds
    await asyncio.gather(*(client(port, work, number, until, seen, expected) for number in range(clients)))
    return seen


async def client(
    port: int, work: Workload, number: int, until: float, seen: Load, expected: dict[str, str] | None
) -> None:
    """Send requests over one connection, with as little work as possible, since it shares the cores."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    place = number * 7
    while (started := time.perf_counter()) < until:
        text = work.texts[place % len(work.texts)]
        body = json.dumps({"q": text, "source": work.source, "target": work.target}).encode()
        head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        writer.write(head.encode() + b"\r\n\r\n" + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.split(b"content-length:")[1].split(b"\r\n")[0])
        content = json.loads(await reader.readexactly(length))
        if not answer.startswith(b"http/1.1 200"):
            raise SystemExit(f"the server answered {content}")
        seen.seconds.append(time.perf_counter() - started)
        seen.wrong += expected is not None and content["translatedText"] != expected[text]
        place += 1
    writer.close()


def soaked(work: Workload, seconds: float) -> results.Row:
    """Run at full load for a while, and return the memory after the first minute and at equal intervals."""
    pairs = [f"{first} {second}" for first, second in pairwise(work.texts)]
    work = replace(work, texts=[text for both in zip(work.texts, pairs, strict=False) for text in both])
    with Translator() as translator:
        expected = dict(zip(work.texts, translator(work.texts), strict=True))
    with our_server([]) as (port, process):
        seen = asyncio.run(load(port, work, 32, min(60, seconds), expected))
        memory, count, wrong = [resident(process)], len(seen.seconds), seen.wrong
        for _ in range(10):
            seen = asyncio.run(load(port, work, 32, seconds / 10, expected))
            count, wrong = count + len(seen.seconds), wrong + seen.wrong
            memory.append(resident(process))
            print(f"{count} answers, {wrong} wrong, {memory[-1] / 1e6:.1f} MB", flush=True)
    return {
        "work": "soak",
        "seconds": seconds,
        "answers": count,
        "wrong": wrong,
        "memory": memory,
        "machine": results.machine(),
    }


def resident(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGES


@contextmanager
def our_server(options: list[str]) -> Iterator[Server]:
    command = [sys.executable, "-m", "seq2edge", "serve", "--port", "{port}", "--time-limit", "600", *options]
    with running(command, os.environ.copy()) as started:
        yield started


@contextmanager
def libretranslate_server(python: Path) -> Iterator[Server]:
    with TemporaryDirectory() as folder:
        own = {f"XDG_{kind}_HOME": f"{folder}/{kind}" for kind in ("DATA", "CACHE", "CONFIG")}
        command = [str(python), str(HERE / "libretranslate_server.py"), str(models.fetch_opus()), "{port}"]
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "ARGOS_DEVICE_TYPE": "cpu", **own}
        with running(command, environment) as started:
            yield started


@contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[Server]:
    """Start a server on a free port and wait until it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [part.format(port=port) for part in command]
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while socket.socket().connect_ex(("127.0.0.1", port)):
                if process.poll() is not None:
                    raise SystemExit(f"{' '.join(arguments)} has ended with {process.returncode}")
                time.sleep(0.2)
            yield Server(port, process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


if __name__ == "__main__":
    main()
