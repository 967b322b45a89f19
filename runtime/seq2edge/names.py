"""The names of graph inputs, outputs and bundle files: each is made here and nowhere else; needs nothing."""

SOURCE, SOURCE_MASK = "source", "source_mask"
TARGET, ROWS, LOGITS = "target", "rows", "logits"
PAST = "past_"  # how the cache's inputs begin
PAST_ROWS, PAST_LENGTH = "past_rows", "past_length"  # its axes that change

ENCODER, DECODER, WEIGHTS, MANIFEST = "encoder.onnx", "decoder.onnx", "weights.bin", "manifest.json"


def cross(layers: int) -> list[str]:
    """Cross-attention keys and values of every decoder layer: made by the encoder, read by the decoder."""
    return _keys_values("cross", layers)


def past(layers: int) -> list[str]:
    """The cache that a decoder call reads."""
    return _keys_values("past", layers)


def present(layers: int) -> list[str]:
    """The cache that a decoder call gives, which is the past of the next."""
    return _keys_values("present", layers)


def _keys_values(kind: str, layers: int) -> list[str]:
    return [f"{kind}_{part}.{layer}" for layer in range(layers) for part in ("keys", "values")]
