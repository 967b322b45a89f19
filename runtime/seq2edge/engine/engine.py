"""The encoder and decoder sessions of a bundle."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle
from seq2edge.devices.registry import DeviceConfig
from seq2edge.devices.session import CPU_CONFIG, compute_nodes, nodes_on_other_providers, open_session
from seq2edge.devices.topk_graphs import TRIAL
from seq2edge.engine.array_pool import ArrayPool
from seq2edge.engine.decoder_inputs import has_inplace_cache
from seq2edge.engine.encoder import encode_batch
from seq2edge.engine.kv_append import AppendCacheState, DeviceTopK, source_dtypes
from seq2edge.engine.kv_inplace import InplaceCacheState
from seq2edge.engine.shortlist import OpenState, ShortlistState, open_shortlist
from seq2edge.errors import BundleError
from seq2edge.search.interface import DecoderState

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

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
        self.pad = bundle.manifest.tokens.pad
        self.threads, self.device_config = threads, device_config

        def opened(name: str) -> "InferenceSession":
            path, content = bundle.folder / name, bundle.graph(name)
            return open_session(path, threads=threads, device_config=device_config, content=content)

        self.shortlist = open_shortlist(bundle, opened) if shortlist else None
        self.pool = ArrayPool()
        # The decoder first, because loading it has the higher memory peak.
        self.decoder = opened(tensor_names.SHORT_DECODER if shortlist else tensor_names.DECODER)
        self.encoder = opened(tensor_names.ENCODER)
        self.inplace = has_inplace_cache(self.decoder)
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
        size = next(one.shape[-1] for one in self.decoder.get_outputs() if one.name == tensor_names.LOGITS)
        return max(ROWS_PER_BATCH, LOGITS_PER_BATCH // size) if isinstance(size, int) else ROWS_PER_BATCH

    def start(self, sources: list[list[int]]) -> DecoderState:
        """Encode sentences and return the decoder state to search with."""
        open_state = self._encode(sources)
        return open_state(None) if self.shortlist is None else ShortlistState(self.shortlist, sources, open_state)

    def _encode(self, sources: list[list[int]]) -> OpenState:
        if self.inplace:
            mask, cross = encode_batch(self.encoder, sources, pad=self.pad, pool=self.pool)
            return lambda vocabulary: InplaceCacheState(self.decoder, mask, cross, self.pool, vocabulary)
        state = AppendCacheState(self.encoder, self.decoder, self.device_topk, sources, pad=self.pad)
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
