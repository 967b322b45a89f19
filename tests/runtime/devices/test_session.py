"""Errors of onnxruntime become one sentence."""

import pytest

from seq2edge.devices.session import run
from seq2edge.errors import BundleError


class Broken:
    """A session whose error has no message."""

    def run(self, names: object, feed: object, options: object) -> None:
        raise MemoryError


def test_an_error_without_a_message_is_named_by_its_type() -> None:
    with pytest.raises(BundleError, match="MemoryError"):
        run(Broken(), {})
