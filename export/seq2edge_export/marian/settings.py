"""YAML as Marian reads it: every scalar is a text until somebody wants a number; needs PyYAML."""

from pathlib import Path
from typing import Any

import yaml

from seq2edge.errors import CheckpointError

# Makes texts, lists and mappings of them, and nothing else: a word such as "yes" or "1e5" stays what it is.
LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
TRUE, FALSE = ("true", "yes", "on"), ("false", "no", "off")
Mapping = dict[str, Any]


def parse_yaml(text: str, where: str) -> Mapping:
    """The mapping that a text is, nothing if it is empty."""
    try:
        content = yaml.load(text, LOADER) or {}
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise CheckpointError(f"{where} is not YAML that can be read ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise CheckpointError(f"{where} should hold names and values, not {type(content).__name__}")
    return content


def read_yaml(path: Path) -> Mapping:
    try:
        return parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 ({error})") from None


class Settings:
    """Values by name, each asked for as what it should be; what is something else is noted."""

    def __init__(self, content: Mapping, problems: list[str]) -> None:
        self.content, self.problems = content, problems

    def text(self, name: str, default: str = "") -> str:
        value = self.content.get(name, default)
        return value if isinstance(value, str) else self._noted(name, default)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.text(name, str(default)).lower()
        return value in TRUE if value in TRUE + FALSE else self._noted(name, default)

    def whole(self, name: str, default: int = 0) -> int:
        value = self.text(name, str(default))
        return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else self._noted(name, default)

    def number(self, name: str, default: float = 0.0) -> float:
        try:
            return float(self.text(name, str(default)))
        except ValueError:
            return self._noted(name, default)

    def texts(self, name: str) -> list[str]:
        """A list; one value alone is a list too."""
        value = self.content.get(name, [])
        values = value if isinstance(value, list) else [value] if value else []
        return values if all(isinstance(one, str) for one in values) else self._noted(name, [])

    def wholes(self, name: str) -> list[int]:
        values = self.texts(name)
        plain = all(value.isascii() and value.isdigit() and len(value) < 10 for value in values)
        return [int(value) for value in values] if plain else self._noted(name, [])

    def _noted(self, name: str, default: Any) -> Any:
        found = f"{name} = {str(self.content.get(name))[:60]!r}, which it cannot be"
        if found not in self.problems:
            self.problems.append(found)
        return default
