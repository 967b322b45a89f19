"""Files and tensor names of small graphs that select tokens and rows on a device.

``seq2edge_graphs.topk_graphs`` defines and writes them.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
LIKELIEST, BEST, TRIAL = FOLDER / "likeliest.onnx", FOLDER / "best.onnx", FOLDER / "product.onnx"
DTYPES = ("float", "float16", "int64", "bool")  # of states, by their names in onnxruntime

LOGITS, COUNT, TOKENS, SCORES = "logits", "count", "tokens", "log_probabilities"
STATES, ROWS, SELECTED = "states", "rows", "selected"
LEFT, RIGHT, PRODUCT = "left", "right", "product"
PRODUCTS = 8  # in the trial graph, one after the other


def select_graph(dtype: str) -> Path:
    """Return the file of the graph that selects rows of a tensor of this dtype."""
    return FOLDER / f"select_{dtype}.onnx"
