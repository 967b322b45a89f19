"""Count requests, batches and sentences for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The metrics of one server."""

    def __init__(self, *, waiting: Callable[[], int], loaded: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, CPU time and open files; Linux only
        self.requests = Counter(
            "seq2edge_requests", "Requests by path and status.", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "seq2edge_request_seconds", "Time to answer.", ["path"], buckets=SECONDS, registry=self.registry
        )
        self.characters = Counter("seq2edge_characters", "Characters to translate.", registry=self.registry)
        self.batches = Histogram(
            "seq2edge_batch_sentences", "Sentences that were translated at once.", buckets=SIZES, registry=self.registry
        )
        gauge = Gauge("seq2edge_waiting_requests", "Requests that wait for a batch.", registry=self.registry)
        gauge.set_function(waiting)
        gauge = Gauge("seq2edge_loaded_models", "Bundles in memory.", registry=self.registry)
        gauge.set_function(loaded)

    def answered(self, path: str, status: int, seconds: float) -> None:
        self.requests.labels(path, str(status)).inc()
        self.seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
