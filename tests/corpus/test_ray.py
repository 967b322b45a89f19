import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from seq2edge import Translator
from seq2edge.corpus import worker
from seq2edge.corpus.ray_engine import ChunkActor, RayEngine, bundle_content, connected
from seq2edge.corpus.run import RAY_CHUNK_ROWS, plan, run

ray = pytest.importorskip("ray")
DRIVER = Path(__file__).with_name("driver.py")
ACTOR = "ChunkActor"
LIMIT = 240  # seconds
REPEATED = 25  # times the sentences, so that a fast machine is not done before it is disturbed


@pytest.fixture
def source(tmp_path: Path, sentences: list[str]) -> Path:
    (tmp_path / "in").mkdir()
    lines = sentences * REPEATED
    (tmp_path / "in/a.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "in"


@pytest.fixture
def wanted(expected: list[str]) -> list[str]:
    return expected * REPEATED


def drive(*arguments: str | Path) -> "subprocess.Popen[str]":
    command = [sys.executable, DRIVER, "--ray", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_rows(process: "subprocess.Popen[str]", rows: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("rows") and int(line.split()[1]) >= rows:
            return
    pytest.fail("the run ended before it could be disturbed")


def finish(process: "subprocess.Popen[str]") -> None:
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, output


def actors() -> list[int]:
    """Return the processes that translate."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if command.startswith(b"ray::") and ACTOR.encode() in command:
                found.append(int(entry.name))
    return found


def lines_of(folder: Path) -> list[str]:
    return (folder / "a.txt").read_text(encoding="utf-8").splitlines()


def test_ray_gives_what_one_process_gives(tmp_path: Path, source: Path, wanted: list[str]) -> None:
    finish(drive(source, tmp_path / "out", "--chunk-rows", "20", "--concurrency", "2"))
    assert lines_of(tmp_path / "out") == wanted


def test_a_killed_actor_loses_and_repeats_nothing(tmp_path: Path, source: Path, wanted: list[str]) -> None:
    running = drive(source, tmp_path / "out", "--concurrency", "2")
    wait_for_rows(running, 4)
    victims = actors()
    assert victims
    os.kill(victims[0], signal.SIGKILL)
    finish(running)
    assert lines_of(tmp_path / "out") == wanted


def test_a_killed_driver_is_resumed(tmp_path: Path, source: Path, wanted: list[str]) -> None:
    running = drive(source, tmp_path / "out", "--concurrency", "2")
    wait_for_rows(running, 10)
    running.kill()
    running.communicate()
    assert not (tmp_path / "out/a.txt").exists()
    finish(drive(source, tmp_path / "out", "--concurrency", "2", "--resume"))
    assert lines_of(tmp_path / "out") == wanted


@pytest.fixture
def cluster() -> "Iterator[ray.cluster_utils.Cluster]":
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    yield cluster
    cluster.shutdown()


def test_a_lost_node_loses_and_repeats_nothing(
    tmp_path: Path, source: Path, wanted: list[str], cluster: "ray.cluster_utils.Cluster"
) -> None:
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    running = drive(source, tmp_path / "out", "--address", cluster.address, "--concurrency", "2")
    wait_for_rows(running, 6)
    time.sleep(1)
    cluster.remove_node(node, allow_graceful=False)
    finish(running)
    assert lines_of(tmp_path / "out") == wanted


@pytest.fixture
def connection() -> Iterator[None]:
    with connected(None):
        yield


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")  # of Ray about its own settings
def test_all_actors_work_on_a_small_parquet_file(
    tmp_path: Path, sentences: list[str], wanted: list[str], connection: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Watched(ChunkActor):
        """Begins when both actors are there, and says which of them worked."""

        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)
            (tmp_path / f"{os.getpid()}.started").touch()
            end = time.monotonic() + LIMIT
            while len(list(tmp_path.glob("*.started"))) < 2 and time.monotonic() < end:
                time.sleep(0.05)

        def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
            (tmp_path / f"{os.getpid()}.worked").touch()
            return super().__call__(batch)

    monkeypatch.setattr("seq2edge.corpus.ray_engine.ChunkActor", Watched)
    parquet.write_table(pyarrow.table({"text": sentences * REPEATED}), tmp_path / "a.parquet")
    job = plan(str(tmp_path / "a.parquet"), str(tmp_path / "out"), worker(num_beams=1), chunk_rows=RAY_CHUNK_ROWS)
    run(job, RayEngine(concurrency=2))
    assert parquet.read_table(tmp_path / "out/a.parquet")["translation"].to_pylist() == wanted
    assert len(list(tmp_path.glob("*.worked"))) == 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
def test_a_node_without_the_bundle_gets_it_and_its_actors_share_the_weights(
    tmp_path: Path, source: Path, wanted: list[str], connection: None
) -> None:
    with Translator(threads=1) as translator:
        shutil.copytree(translator.bundle.folder, tmp_path / "bundle")
    job = plan(str(source), str(tmp_path / "out"), worker(str(tmp_path / "bundle"), num_beams=1), chunk_rows=20)
    bundle = ray.put(bundle_content(job))
    shutil.rmtree(tmp_path / "bundle")
    chunks = list(islice(job.chunks("a.txt", {}), 2))
    workers = [ray.remote(ChunkActor).remote(job=job, bundle=bundle) for _ in chunks]
    batches = [{"chunk": [pickle.dumps(chunk)]} for chunk in chunks]
    done = ray.get([one.__call__.remote(batch) for one, batch in zip(workers, batches, strict=True)])
    assert ["error" in outcome for one in done for outcome in map(json.loads, one["outcome"])] == [False, False]
    parts = sorted((tmp_path / "out/_seq2edge/parts/a.txt").glob("*.rows"))
    assert [line for part in parts for line in part.read_text(encoding="utf-8").splitlines()] == wanted[:40]
    mapped = [{line.split()[-1] for line in maps_of(pid) if "weights" in line} for pid in actors()]
    assert len(mapped) == 2
    assert mapped[0] == mapped[1]
    assert len(mapped[0]) == 1


def maps_of(process: int) -> list[str]:
    return Path(f"/proc/{process}/maps").read_text(encoding="utf-8").splitlines()


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
def test_a_worker_runs_in_pipelines_of_ray_and_dask(sentences: list[str], expected: list[str]) -> None:
    import dask
    import pandas
    from dask import delayed

    work = worker(num_beams=1)
    frame = pandas.DataFrame({"text": sentences}, dtype=object)
    parts = dask.compute(*[delayed(work)(frame[start : start + 20]) for start in (0, 20)], scheduler="processes")
    assert [text for part in parts for text in part["translation"]] == expected
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    try:
        ray.data.DataContext.get_current().execution_options.preserve_order = True
        rows = ray.data.from_pandas(frame).map_batches(work, batch_size=20).take_all()
    finally:
        ray.shutdown()
    assert [row["translation"] for row in rows] == expected
