"""Translate a corpus with Ray Data: chunks are read by tasks, and translated by actors that open the bundle once."""

import json
import pickle
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from seq2edge.bundle.atomic_files import new_folder
from seq2edge.corpus.run import Chunk, ChunkRecord, CorpusJob, Records
from seq2edge.errors import DataError, Seq2EdgeError, UsageError

READER_CPUS = 0.05  # of a task that reads a file; actors leave so much of each CPU, or nothing could be read
CONNECT_SECONDS = 10
EXCEPTION = re.compile(r"[\w.]*(Error|Exception)\b")  # at the end of a traceback
Files = dict[str, bytes]  # the content of a bundle


@dataclass(frozen=True, kw_only=True)
class RayEngine:
    """Translate with the Ray cluster that the program is connected to."""

    concurrency: int | None = None  # actors; by default as many as the cluster has CPUs for
    cpus_per_worker: int = 1

    def __call__(self, job: CorpusJob, done: Records) -> Iterator[ChunkRecord]:
        """Yield the record of each chunk when it is written."""
        import ray
        from ray.data import ActorPoolStrategy, DataContext

        with _our_errors():
            context = DataContext.get_current()
            context.enable_progress_bars = False
            context.target_max_block_size = 1  # a block for each chunk: the chunks of a block go to one actor
            bundle = ray.put(bundle_content(job))
            files = ray.data.from_items([{"file": file} for file in job.files], override_num_blocks=len(job.files))
            chunks = files.flat_map(ChunkReader(job, done), num_cpus=READER_CPUS)
            records = chunks.map_batches(
                ChunkActor,
                fn_constructor_kwargs={"job": job, "bundle": bundle},
                batch_size=1,
                compute=ActorPoolStrategy(
                    size=self.concurrency or self._most_actors(),
                    max_tasks_in_flight_per_actor=2,  # one that waits is enough; more would keep them from other actors
                ),
                num_cpus=self.cpus_per_worker * (1 - READER_CPUS),
            )
            for row in records.iter_rows():
                yield _record(json.loads(row["outcome"]))

    def _most_actors(self) -> int:
        import ray

        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call, unused-ignore]
        return max(1, int(resources.get("CPU", 1)) // self.cpus_per_worker)


@dataclass(frozen=True)
class ChunkReader:
    """Reads a file in chunks; an error takes the place of the next one."""

    job: CorpusJob
    done: Records

    def __call__(self, row: dict[str, Any]) -> Iterator[dict[str, bytes]]:
        try:
            for chunk in self.job.chunks(row["file"], self.done.get(row["file"], {})):
                yield {"chunk": pickle.dumps(chunk)}
        except Seq2EdgeError as error:
            yield {"chunk": pickle.dumps(str(error))}


class ChunkActor:
    """Translates chunks with one translator.

    Our errors are outcomes, too: what Ray makes of an exception differs between its versions.
    """

    def __init__(self, *, job: CorpusJob, bundle: Any) -> None:
        path = job.worker.bundle
        if path is not None:
            job = replace(job, worker=replace(job.worker, bundle=_on_this_node(path, bundle)))
        self.job = job

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        return {"outcome": [json.dumps(self._outcome(pickle.loads(chunk))) for chunk in batch["chunk"]]}

    def _outcome(self, chunk: Chunk | str) -> dict[str, Any]:
        if isinstance(chunk, str):
            return {"error": chunk}
        try:
            return asdict(self.job.translate(chunk))
        except Seq2EdgeError as error:
            return {"error": str(error)}


def _record(outcome: dict[str, Any]) -> ChunkRecord:
    if "error" in outcome:
        raise DataError(outcome["error"])
    return ChunkRecord(**outcome)


def bundle_content(job: CorpusJob) -> Files:
    """Read a bundle, for nodes that do not have it; the default model is a part of the package."""
    if job.worker.bundle is None:
        return {}
    bundle = job.worker.translator.bundle
    return {path.name: path.read_bytes() for path in bundle.folder.iterdir() if path.is_file()}


def _on_this_node(path: str, bundle: Any) -> str:
    """Return the path if this node has the same bundle there; otherwise write it to a temporary folder, once a node."""
    import ray

    files: Files = ray.get(bundle) if isinstance(bundle, ray.ObjectRef) else bundle
    manifest = Path(path) / "manifest.json"
    if manifest.is_file() and manifest.read_bytes() == files["manifest.json"]:
        return path
    from hashlib import sha256

    digest = sha256(files["manifest.json"]).hexdigest()[:16]
    target = Path(tempfile.gettempdir()) / f"seq2edge-{digest}"
    if not target.exists():
        with new_folder(target) as folder:  # another actor may do the same: both write the same files
            for name, content in files.items():
                (folder / name).write_bytes(content)
    return str(target)


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Connect to the cluster at an address, or start Ray on this machine; keep a connection that the program has."""
    import logging
    import os

    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # of messages that users can do nothing about
    import ray

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    if ray.is_initialized():
        yield
        return
    _check_address(address)
    try:
        ray.init(address=address, include_dashboard=None if address else False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _no_cluster(address, str(error).splitlines()[0][:200]) from None
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(address: str | None) -> None:
    """Find out at once whether anything listens at an address; Ray itself tries for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, str(getattr(error, "strerror", None) or error).lower()) from None


def _no_cluster(address: str | None, reason: str) -> UsageError:
    return UsageError(f"no Ray cluster answers at {address or 'this machine'} ({reason})")


@contextmanager
def _our_errors() -> Iterator[None]:
    """Raise the error of ours that a task of Ray has wrapped."""
    from ray.exceptions import RayError

    try:
        yield
    except RayError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, Seq2EdgeError):
            cause = getattr(cause, "cause", None) or cause.__cause__
        lines = str(error).strip().splitlines()
        reason = next((line for line in reversed(lines) if EXCEPTION.match(line)), lines[-1]).strip()[:300]
        raise (cause or DataError(f"Ray gave up: {reason}; continue with --resume")) from None
