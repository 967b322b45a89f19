"""The encoder and the decoder of a bundle as an engine; needs numpy and onnxruntime."""

from seq2edge import names
from seq2edge.buffered_step import BufferedStep
from seq2edge.bundle import Bundle
from seq2edge.encoding import encode, encode_together
from seq2edge.first_call import is_buffered
from seq2edge.growing_step import GrowingStep
from seq2edge.sessions import Device, open_session


class OnnxEngine:
    """Encoder and decoder of one bundle, ready to run."""

    def __init__(self, bundle: Bundle, *, threads: int, device: Device = "cpu") -> None:
        self.pad = bundle.manifest.tokens.pad
        self.threads, self.device = threads, device
        self.encoder = open_session(bundle.folder / names.ENCODER, threads=threads, device=device)
        self.decoder = open_session(bundle.folder / names.DECODER, threads=threads, device=device)
        self.buffered = is_buffered(self.decoder)

    @property
    def cross_axes(self) -> dict[str, list[str | int]]:
        """The axes of what the encoder hands over; a name where the size changes from call to call."""
        return {output.name: output.shape for output in self.encoder.get_outputs()}

    def start(self, sources: list[list[int]]) -> BufferedStep | GrowingStep:
        """Encode some sentences and give the step that decodes them."""
        if self.buffered:
            return BufferedStep(self.decoder, *encode_together(self.encoder, sources, pad=self.pad))
        return GrowingStep(self.decoder, encode(self.encoder, sources, pad=self.pad))
