"""Define the names of graph inputs, outputs, axes and bundle files, for all packages."""

ENCODER, DECODER, WEIGHTS, MANIFEST = "encoder.onnx", "decoder.onnx", "weights.bin", "manifest.json"
SIGNATURE = "manifest.sig"  # optional signature of the manifest
SCORER = "scorer.onnx"  # the decoder again, with the logits of all positions and the cross-attention
# A bundle with a shortlist: the table, the decoder for a restricted vocabulary, and the graph that gathers its weights.
SHORTLIST, SHORT_DECODER, WORDS_GRAPH = "shortlist.bin", "short_decoder.onnx", "words.onnx"
GRAPHS = (ENCODER, DECODER, SCORER, SHORT_DECODER, WORDS_GRAPH)

SOURCE, SOURCE_MASK = "source", "source_mask"
TARGET, ROWS, LOGITS = "target", "rows", "logits"
# Inputs of a decoder with an in-place KV cache, instead of rows and source mask.
POSITIONS, LAST, TOTAL, WANTED, SOURCE_BIAS = "positions", "last", "total", "wanted", "source_bias"
LOG_TOTALS = "log_totals"
# Restricted vocabulary: token ids, rows of the output projection, their scales, and the bias of each batch row.
WORDS, WORD_MATRIX, WORD_SCALES, WORD_BIAS = "words", "word_matrix", "word_scales", "word_bias"
ALL_LOGITS, ATTENTION = "all_logits", "attention"

# Dynamic axes.
BATCH, SOURCE_LENGTH = "batch", "source_length"
ROWS_PER_SENTENCE, NEW_LENGTH = "rows_per_sentence", "new_length"
PAST_ROWS, PAST_LENGTH = "past_rows", "past_length"
WANTED_ROWS, QUERIES = "wanted_rows", "queries"

_CROSS, _PAST, _PRESENT = "cross", "past", "present"


def cross(layers: int) -> list[str]:
    """Name the cross-attention keys and values of every decoder layer: encoder outputs and decoder inputs."""
    return _keys_values(_CROSS, layers)


def past(layers: int) -> list[str]:
    """Name the KV cache that a decoder call reads."""
    return _keys_values(_PAST, layers)


def past_cells(layers: int) -> list[str]:
    """Name the cache of a recurrent decoder: the cell of every layer, and the number of tokens so far."""
    return [*(f"{_PAST}_cell.{layer}" for layer in range(layers)), f"{_PAST}_count"]


def numbered_cross(count: int) -> list[str]:
    """Name the states that the encoder of a user module passes to its decoder."""
    return [f"{_CROSS}.{number}" for number in range(count)]


def numbered_past(count: int) -> list[str]:
    """Name the states that a user module passes from one decoder call to the next."""
    return [f"{_PAST}.{number}" for number in range(count)]


def is_cross(name: str) -> bool:
    """Return whether a decoder input comes from the encoder."""
    return name.startswith(_CROSS)


def is_past(name: str) -> bool:
    """Return whether a decoder input is part of the cache."""
    return name.startswith(_PAST)


def is_state(name: str) -> bool:
    """Return whether an input or output is only passed between graphs or calls."""
    return name.startswith((_CROSS, _PAST, _PRESENT))


def present_of(past_name: str) -> str:
    """Return the name of the output that becomes this input of the next call."""
    return _PRESENT + past_name.removeprefix(_PAST)


def _keys_values(prefix: str, layers: int) -> list[str]:
    return [f"{prefix}_{part}.{layer}" for layer in range(layers) for part in ("keys", "values")]
