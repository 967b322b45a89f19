"""The JSON files of a Hugging Face folder; needs nothing."""

import json
from pathlib import Path
from typing import Any

from seq2edge.errors import CheckpointError

CONFIG, GENERATION = "config.json", "generation_config.json"
TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
Settings = dict[str, Any]


def model_type(path: Path) -> str:
    """What ``config.json`` says the model is; nothing if the path is no folder of Hugging Face."""
    if not (path / CONFIG).is_file():
        return ""
    found = read_settings(path / CONFIG).get("model_type")
    return found if isinstance(found, str) else ""


def read_settings(path: Path, *, wanted: bool = True) -> Settings:
    """A JSON object; one that is not ``wanted`` may be missing."""
    if not wanted and not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON in UTF-8 ({error})") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} should hold a JSON object, not {type(content).__name__}")
    return content
