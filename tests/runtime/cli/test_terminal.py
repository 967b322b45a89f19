"""A terminal obeys control characters, so those of a bundle are shown there and not sent; files stay exact."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seq2edge.bundle.bundle import DEFAULT_BUNDLE
from seq2edge.files.lines import visible

pty = pytest.importorskip("pty")  # not on Windows
HOSTILE = "\x1b]0;owned\x07\x9b31m"
VISIBLE = r"\x1b]0;owned\x07\x9b31m"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The default model, with control characters in front of two words."""
    pb2 = pytest.importorskip("sentencepiece.sentencepiece_model_pb2", exc_type=ImportError)
    from hostile_bundle import rehash

    folder = Path(shutil.copytree(DEFAULT_BUNDLE, tmp_path / "bundle"))
    file = folder / "tokenizer.model"
    content = pb2.ModelProto.FromString(file.read_bytes())
    for piece in content.pieces:
        if piece.piece in ("▁Bom", "▁dia"):  # of "Good morning."
            piece.piece = piece.piece.replace("▁", f"▁{HOSTILE}")
    file.write_bytes(content.SerializeToString())
    rehash(folder)
    return folder


def translate(bundle: Path, *, terminal: bool) -> str:
    command = [sys.executable, "-m", "seq2edge", "translate", "-m", str(bundle), "Good morning."]
    if not terminal:
        return subprocess.run(command, capture_output=True, check=True).stdout.decode()
    main, side = pty.openpty()
    with subprocess.Popen(command, stdout=side, stderr=subprocess.PIPE):
        os.close(side)
        shown = b""
        try:
            while chunk := os.read(main, 1000):
                shown += chunk
        except OSError:  # how Linux says that the other side was closed
            pass
    os.close(main)
    return shown.decode().replace("\r\n", "\n")


def test_control_characters_are_shown_on_a_terminal_and_exact_in_a_pipe(bundle: Path) -> None:
    exact, shown = (translate(bundle, terminal=terminal) for terminal in (False, True))
    assert HOSTILE in exact
    assert VISIBLE in shown
    assert shown == visible(exact)


def test_tabs_newlines_and_all_other_characters_stay() -> None:
    assert visible("a\tb\nGrüße 世界 🙂\u00a0\u202e") == "a\tb\nGrüße 世界 🙂\u00a0\u202e"
    assert visible("\0\x08\x0b\x1f\x7f\x80\x9f") == r"\x00\x08\x0b\x1f\x7f\x80\x9f"
