"""Read a file that holds one JSON object; needs nothing."""

import json
from pathlib import Path
from typing import Any

from seq2edge.errors import CheckpointError


def read_object(path: Path, *, wanted: bool = True) -> dict[str, Any]:
    """What a checkpoint's file says; one that is not ``wanted`` may be missing."""
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
