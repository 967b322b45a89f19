"""The encoder and the decoder of a bundle as an engine; needs numpy and onnxruntime."""

from collections.abc import Callable
from functools import partial

from seq2edge import names
from seq2edge.buffered_step import BufferedStep
from seq2edge.bundle import Bundle
from seq2edge.encoding import encode, encode_together
from seq2edge.first_call import is_buffered
from seq2edge.growing_step import GrowingStep
from seq2edge.sessions import Device, open_session
from seq2edge.short_step import ShortStep, open_words
from seq2edge.words import Words


class OnnxEngine:
    """Encoder and decoder of one bundle, ready to run; with ``shortlist``, the words are those of its shortlist."""

    def __init__(self, bundle: Bundle, *, threads: int, device: Device = "cpu", shortlist: bool = False) -> None:
        self.pad = bundle.manifest.tokens.pad
        self.threads, self.device = threads, device
        self.encoder = open_session(bundle.folder / names.ENCODER, threads=threads, device=device)
        self.choice = open_words(bundle, threads=threads, device=device) if shortlist else None
        decoder = names.SHORT_DECODER if shortlist else names.DECODER
        self.decoder = open_session(bundle.folder / decoder, threads=threads, device=device)
        self.buffered = is_buffered(self.decoder)

    @property
    def cross_axes(self) -> dict[str, list[str | int]]:
        """The axes of what the encoder hands over; a name where the size changes from call to call."""
        return {output.name: output.shape for output in self.encoder.get_outputs()}

    def start(self, sources: list[list[int]]) -> BufferedStep | GrowingStep | ShortStep:
        """Encode some sentences and give the step that decodes them."""
        open_step = self._encoded(sources)
        return open_step(None) if self.choice is None else ShortStep(self.choice, sources, open_step)

    def _encoded(self, sources: list[list[int]]) -> Callable[[Words | None], BufferedStep | GrowingStep]:
        """What opens a step for sentences that are encoded."""
        if self.buffered:
            return partial(BufferedStep, self.decoder, *encode_together(self.encoder, sources, pad=self.pad))
        return partial(GrowingStep, self.decoder, encode(self.encoder, sources, pad=self.pad))
