"""Settings written once: a dataclass field with the help text of its command-line option; needs nothing."""

from dataclasses import field
from typing import Any


def setting(default: Any, help: str) -> Any:
    """Declare a field with a default and an explanation."""
    return field(default=default, metadata={"help": help})


def required(help: str) -> Any:
    """Declare a field that has no default."""
    return field(metadata={"help": help})
