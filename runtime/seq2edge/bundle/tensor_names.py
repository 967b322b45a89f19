"""The names of graph inputs, outputs, axes and bundle files: each is made here and nowhere else."""

ENCODER, DECODER, WEIGHTS, MANIFEST = "encoder.onnx", "decoder.onnx", "weights.bin", "manifest.json"
SIGNATURE = "manifest.sig"  # of the manifest, if somebody has signed it
SCORER = "scorer.onnx"  # the decoder again, with the logits of all positions and the cross-attention
# Of a bundle with a shortlist: the table, the decoder that is given the words it may say, and what gathers them.
SHORTLIST, SHORT_DECODER, WORDS_GRAPH = "shortlist.bin", "short_decoder.onnx", "words.onnx"
GRAPHS = (ENCODER, DECODER, SCORER, SHORT_DECODER, WORDS_GRAPH)

SOURCE, SOURCE_MASK = "source", "source_mask"
TARGET, ROWS, LOGITS = "target", "rows", "logits"
# In the place of rows and the source mask, where the cache is in buffers.
POSITIONS, LAST, TOTAL, WANTED, SOURCE_BIAS = "positions", "last", "total", "wanted", "source_bias"
LOG_TOTALS = "log_totals"
# Of the words of a shortlist: their ids, what the states are multiplied with, and what is added to each row.
WORDS, WORD_MATRIX, WORD_SCALES, WORD_BIAS = "words", "word_matrix", "word_scales", "word_bias"
ALL_LOGITS, ATTENTION = "all_logits", "attention"

# Axes whose size changes from call to call.
BATCH, SOURCE_LENGTH = "batch", "source_length"
ROWS_PER_SENTENCE, NEW_LENGTH = "rows_per_sentence", "new_length"
PAST_ROWS, PAST_LENGTH = "past_rows", "past_length"
WANTED_ROWS, QUERIES = "wanted_rows", "queries"

_CROSS, _PAST, _PRESENT = "cross", "past", "present"


def cross(layers: int) -> list[str]:
    """Cross-attention keys and values of every decoder layer: made by the encoder, read by the decoder."""
    return _keys_values(_CROSS, layers)


def past(layers: int) -> list[str]:
    """The cache that a decoder call reads."""
    return _keys_values(_PAST, layers)


def past_cells(layers: int) -> list[str]:
    """The same for a recurrent decoder: the cell of every layer, and how many tokens were before."""
    return [*(f"{_PAST}_cell.{layer}" for layer in range(layers)), f"{_PAST}_count"]


def numbered_cross(count: int) -> list[str]:
    """States that a module of its own kind hands from encoder to decoder."""
    return [f"{_CROSS}.{number}" for number in range(count)]


def numbered_past(count: int) -> list[str]:
    """States that a module of its own kind hands from one decoder call to the next."""
    return [f"{_PAST}.{number}" for number in range(count)]


def is_cross(name: str) -> bool:
    """Whether a decoder input comes from the encoder."""
    return name.startswith(_CROSS)


def is_past(name: str) -> bool:
    """Whether a decoder input is part of the cache."""
    return name.startswith(_PAST)


def is_state(name: str) -> bool:
    """Whether an input or output goes from one graph or call to another, and never to a caller."""
    return name.startswith((_CROSS, _PAST, _PRESENT))


def present_of(past_name: str) -> str:
    """The output that is the past of the next call."""
    return _PRESENT + past_name.removeprefix(_PAST)


def _keys_values(kind: str, layers: int) -> list[str]:
    return [f"{kind}_{part}.{layer}" for layer in range(layers) for part in ("keys", "values")]
