"""The encoder and the decoder of a bundle as an engine."""

from collections import Counter
from collections.abc import Callable
from functools import partial

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle
from seq2edge.devices.registry import DeviceConfig
from seq2edge.devices.session import CPU_CONFIG, compute_nodes, nodes_on_other_providers, open_session
from seq2edge.devices.topk_graphs import TRIAL
from seq2edge.engine.array_pool import ArrayPool
from seq2edge.engine.decoder_inputs import RestrictedVocabulary, has_inplace_cache
from seq2edge.engine.device_topk import DeviceTopK
from seq2edge.engine.encoder import encode_batch
from seq2edge.engine.kv_append import AppendCacheState, source_kinds
from seq2edge.engine.kv_inplace import InplaceCacheState
from seq2edge.engine.shortlist import ShortlistState, open_shortlist
from seq2edge.errors import BundleError

ROWS_AT_ONCE = 64
LOGITS_AT_ONCE = 2**20  # 4 MB: more rows of a large vocabulary leave the caches of a CPU between two passes


class OnnxEngine:
    """Encoder and decoder of one bundle, ready to run; with ``shortlist``, the words are those of its shortlist."""

    def __init__(
        self, bundle: Bundle, *, threads: int, device_config: DeviceConfig = CPU_CONFIG, shortlist: bool = False
    ) -> None:
        _check_fit(bundle, device_config)
        self.pad = bundle.manifest.tokens.pad
        self.threads, self.device_config = threads, device_config
        self.choice = open_shortlist(bundle, threads=threads, device_config=device_config) if shortlist else None
        self.blocks = ArrayPool()
        decoder = tensor_names.SHORT_DECODER if shortlist else tensor_names.DECODER
        # The decoder first: loading it takes the most memory for a moment.
        self.decoder = open_session(bundle.folder / decoder, threads=threads, device_config=device_config)
        self.encoder = open_session(bundle.folder / tensor_names.ENCODER, threads=threads, device_config=device_config)
        self.buffered = has_inplace_cache(self.decoder)
        if not self.buffered:
            kinds = set(source_kinds(self.decoder).values())
            self.chooser = DeviceTopK(device_config, threads=threads, kinds=kinds)

    @property
    def cross_axes(self) -> dict[str, list[str | int]]:
        """The axes of what the encoder hands over; a name where the size changes from call to call."""
        return {output.name: output.shape for output in self.encoder.get_outputs()}

    @property
    def most_rows(self) -> int:
        """How many rows of the search are decoded fastest together."""
        size = next(one.shape[-1] for one in self.decoder.get_outputs() if one.name == tensor_names.LOGITS)
        return max(ROWS_AT_ONCE, LOGITS_AT_ONCE // size) if isinstance(size, int) else ROWS_AT_ONCE

    def start(self, sources: list[list[int]]) -> InplaceCacheState | AppendCacheState | ShortlistState:
        """Encode some sentences and give the step that decodes them."""
        open_step = self._encoded(sources)
        return open_step(None) if self.choice is None else ShortlistState(self.choice, sources, open_step)

    def _encoded(
        self, sources: list[list[int]]
    ) -> Callable[[RestrictedVocabulary | None], InplaceCacheState | AppendCacheState]:
        """What opens a step for sentences that are encoded."""
        if self.buffered:
            mask, cross = encode_batch(self.encoder, sources, pad=self.pad, blocks=self.blocks)
            return partial(InplaceCacheState, self.decoder, mask, cross, self.blocks)
        return AppendCacheState(self.encoder, self.decoder, self.chooser, sources, pad=self.pad).with_words

    @property
    def notes(self) -> list[str]:
        """What somebody who asked for a device should know: the nodes that other providers run."""
        found: dict[str, Counter[str]] = {}
        for session in (self.encoder, self.decoder):
            parts = nodes_on_other_providers(session, self.device_config)
            if parts is None:
                return [f"this onnxruntime does not tell which nodes run elsewhere than on {self.device_config.device}"]
            for provider, operators in parts.items():
                found.setdefault(provider, Counter()).update(operators)
        return [_note(provider, operators, self.device_config) for provider, operators in found.items()]


def _check_fit(bundle: Bundle, device_config: DeviceConfig) -> None:
    """Refuse a bundle that the device cannot run; a device that cannot be used at all is the first thing to know."""
    try:
        device_config.kind.check(bundle.manifest)
    except BundleError:
        open_session(TRIAL, threads=1, device_config=device_config)
        raise


def _note(provider: str, operators: Counter[str], device_config: DeviceConfig) -> str:
    numbers = compute_nodes(operators)
    if not numbers:
        return f"{operators.total()} shape and index nodes run on {provider}, all others on {device_config.device}"
    named = ", ".join(f"{name} {count}" for name, count in numbers.most_common())
    return f"{operators.total()} nodes run on {provider} instead of {device_config.device}, among them {named}"
