"""The encoder and decoder sessions of a bundle."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle
from seq2edge.config.generation import GenerationOptions
from seq2edge.devices.memory import memory_limit
from seq2edge.devices.registry import DeviceConfig
from seq2edge.devices.session import CPU_CONFIG, compute_nodes, nodes_on_other_providers, open_session
from seq2edge.devices.topk_graphs import TRIAL
from seq2edge.engine.array_pool import ArrayPool
from seq2edge.engine.decoder_inputs import empty_past, has_inplace_cache
from seq2edge.engine.encoder import Padding, encode_batch
from seq2edge.engine.kv_append import AppendCacheState, DeviceTopK, source_dtypes
from seq2edge.engine.kv_inplace import CAPACITY, BoundCalls, InplaceCacheState
from seq2edge.engine.shortlist import OpenState, ShortlistState, open_shortlist
from seq2edge.errors import BundleError, UsageError
from seq2edge.search.beam import candidates_size
from seq2edge.search.interface import DecoderState

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

GIGABYTE = 10**9
ROWS_PER_BATCH = 64
LOGITS_PER_BATCH = 2**20  # 4 MB: the logits of more rows would leave the CPU's caches between two passes


class OpenSession(Protocol):
    """How an engine opens a graph of its bundle; callers may pass their own to observe or cache its calls."""

    def __call__(
        self, path: Path, *, threads: int, device_config: DeviceConfig, content: bytes | None
    ) -> "InferenceSession": ...


class OnnxEngine:
    """Encode batches of sentences, and decode them with the search; uses the bundle's ``shortlist`` if asked to."""

    def __init__(
        self,
        bundle: Bundle,
        *,
        threads: int,
        device_config: DeviceConfig = CPU_CONFIG,
        shortlist: bool = False,
        open_session: OpenSession = open_session,
    ) -> None:
        _check_supported(bundle, device_config)
        self.padding = Padding(bundle.manifest.tokens.pad, bundle.manifest.max_positions)
        self.threads, self.device_config = threads, device_config

        def opened(name: str) -> "InferenceSession":
            path, content = bundle.folder / name, bundle.graph(name)
            return open_session(path, threads=threads, device_config=device_config, content=content)

        self.shortlist = open_shortlist(bundle, opened) if shortlist else None
        self.pool, self.calls, self.memory_limit = ArrayPool(), BoundCalls(), memory_limit()
        # The decoder first, because loading it has the higher memory peak.
        self.decoder = opened(tensor_names.SHORT_DECODER if shortlist else tensor_names.DECODER)
        self.encoder = opened(tensor_names.ENCODER)
        self.inplace = has_inplace_cache(self.decoder)
        self._vocabulary = _logits_size(self.decoder)
        cache = empty_past(self.decoder, rows=1, length=CAPACITY if self.inplace else 1)
        self._row_size = 4 * self._vocabulary + sum(states.nbytes for states in cache.values())  # bytes
        if not self.inplace:
            self.device_topk = DeviceTopK(
                device_config, threads=threads, dtypes={*source_dtypes(self.decoder).values()}
            )

    @property
    def cross_axes(self) -> dict[str, list[str | int]]:
        """The axes of the encoder's outputs; a name where the size varies from call to call."""
        return {output.name: output.shape for output in self.encoder.get_outputs()}

    @property
    def most_rows(self) -> int:
        """The number of rows that are decoded fastest in one batch."""
        return max(ROWS_PER_BATCH, LOGITS_PER_BATCH // self._vocabulary) if self._vocabulary else ROWS_PER_BATCH

    def check_memory(self, options: GenerationOptions) -> None:
        """Raise an error if the rows of a single sentence do not fit into memory.

        Its cache, logits and candidates, and for a cache in place the number of tokens that two rows share, are held at
        once; what else a step needs is not counted.
        """
        name = "num_beams" if options.num_beams > 1 else "num_return_sequences"
        rows = getattr(options, name)
        needed = rows * (self._row_size + 8 * rows * self.inplace) + candidates_size(options, self._vocabulary)
        if needed > self.memory_limit:
            raise UsageError(
                f"{name} is {rows}, which takes at least {needed / GIGABYTE:,.1f} GB of memory for one sentence, but "
                f"the limit is {self.memory_limit / GIGABYTE:,.1f} GB: use fewer"
            )

    def start(self, sources: list[list[int]]) -> DecoderState:
        """Encode sentences and return the decoder state to search with."""
        open_state = self._encode(sources)
        return open_state(None) if self.shortlist is None else ShortlistState(self.shortlist, sources, open_state)

    def _encode(self, sources: list[list[int]]) -> OpenState:
        if self.inplace:
            mask, cross = encode_batch(self.encoder, sources, padding=self.padding, pool=self.pool)
            return lambda vocabulary: InplaceCacheState(self.decoder, mask, cross, self.pool, vocabulary, self.calls)
        state = AppendCacheState(self.encoder, self.decoder, self.device_topk, sources, padding=self.padding)
        return state.with_vocabulary

    @property
    def notes(self) -> list[str]:
        """Which nodes run on an execution provider other than the device's."""
        operators: dict[str, Counter[str]] = {}
        for session in (self.encoder, self.decoder):
            assigned = nodes_on_other_providers(session, self.device_config)
            if assigned is None:
                return [f"this onnxruntime does not report which nodes run outside of {self.device_config.device}"]
            for provider, counts in assigned.items():
                operators.setdefault(provider, Counter()).update(counts)
        return [_note(provider, counts, self.device_config.device) for provider, counts in operators.items()]


def _logits_size(decoder: "InferenceSession") -> int:
    """Return the number of logits of a row, or 0 if it depends on the batch."""
    size = next(one.shape[-1] for one in decoder.get_outputs() if one.name == tensor_names.LOGITS)
    return size if isinstance(size, int) else 0


def _check_supported(bundle: Bundle, device_config: DeviceConfig) -> None:
    """Refuse a bundle that the device cannot run; report first if the device cannot be used at all."""
    try:
        device_config.kind.check(bundle.manifest)
    except BundleError:
        open_session(TRIAL, threads=1, device_config=device_config)
        raise


def _note(provider: str, operators: Counter[str], device: str) -> str:
    heavy = compute_nodes(operators)
    if not heavy:
        return f"{operators.total()} shape and index nodes run on {provider}, all others on {device}"
    named = ", ".join(f"{name} {count}" for name, count in heavy.most_common())
    return f"{operators.total()} nodes run on {provider} instead of {device}, among them {named}"
