"""Small graphs that work on any model's tensors where these are: their files and names.

``seq2edge_graphs.topk_graphs`` says what they compute, and writes them.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
LIKELIEST, BEST, TRIAL = FOLDER / "likeliest.onnx", FOLDER / "best.onnx", FOLDER / "product.onnx"
KINDS = ("float", "float16", "int64", "bool")  # of numbers, as onnxruntime calls them: those that a state may have

LOGITS, COUNT, TOKENS, SCORES = "logits", "count", "tokens", "log_probabilities"
STATES, ROWS, SELECTED = "states", "rows", "selected"
LEFT, RIGHT, PRODUCT = "left", "right", "product"
PRODUCTS = 8  # of the trial, one after the other


def selecting(kind: str) -> Path:
    """The file of the graph that takes some rows of a tensor of this kind of numbers."""
    return FOLDER / f"select_{kind}.onnx"
