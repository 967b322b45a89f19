"""What the files of a Hugging Face folder are called, and what kind of model it holds; needs nothing."""

from pathlib import Path
from typing import Any

from seq2edge_export.json_object import read_object

CONFIG, GENERATION = "config.json", "generation_config.json"
TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
Settings = dict[str, Any]


def model_type(path: Path) -> str:
    """What ``config.json`` says the model is; nothing if the path is no folder of Hugging Face."""
    if not (path / CONFIG).is_file():
        return ""
    found = read_object(path / CONFIG).get("model_type")
    return found if isinstance(found, str) else ""
