"""The encoder and the decoder of a bundle as an engine; needs numpy and onnxruntime."""

from seq2edge import names
from seq2edge.blocks import Blocks
from seq2edge.buffered_step import BufferedStep
from seq2edge.bundle import Bundle
from seq2edge.encoding import encode, encode_together
from seq2edge.first_call import is_buffered
from seq2edge.growing_step import GrowingStep
from seq2edge.sessions import Device, open_session

ROWS_AT_ONCE = 64
LOGITS_AT_ONCE = 2**20  # 4 MB: more rows of a large vocabulary leave the caches of a CPU between two passes


class OnnxEngine:
    """Encoder and decoder of one bundle, ready to run."""

    def __init__(self, bundle: Bundle, *, threads: int, device: Device = "cpu") -> None:
        self.pad = bundle.manifest.tokens.pad
        self.threads, self.device = threads, device
        self.encoder = open_session(bundle.folder / names.ENCODER, threads=threads, device=device)
        self.decoder = open_session(bundle.folder / names.DECODER, threads=threads, device=device)
        self.buffered = is_buffered(self.decoder)
        self.blocks = Blocks()

    @property
    def cross_axes(self) -> dict[str, list[str | int]]:
        """The axes of what the encoder hands over; a name where the size changes from call to call."""
        return {output.name: output.shape for output in self.encoder.get_outputs()}

    @property
    def most_rows(self) -> int:
        """How many rows of the search are decoded fastest together."""
        size = next(one.shape[-1] for one in self.decoder.get_outputs() if one.name == names.LOGITS)
        return max(ROWS_AT_ONCE, LOGITS_AT_ONCE // size) if isinstance(size, int) else ROWS_AT_ONCE

    def start(self, sources: list[list[int]]) -> BufferedStep | GrowingStep:
        """Encode some sentences and give the step that decodes them."""
        if self.buffered:
            mask, cross = encode_together(self.encoder, sources, pad=self.pad, blocks=self.blocks)
            return BufferedStep(self.decoder, mask, cross, self.blocks)
        return GrowingStep(self.decoder, encode(self.encoder, sources, pad=self.pad))
