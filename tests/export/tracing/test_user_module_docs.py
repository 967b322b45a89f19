"""The code in docs/module.md runs with the model of the PyTorch tutorial."""

import re
from pathlib import Path

import pytest
import torch
from tutorial_model import SOURCE_WORDS, TARGET_WORDS, TEXTS, Seq2SeqTransformer

from seq2edge import Translator
from seq2edge.bundle.bundle import load_bundle

PAGE = (Path(__file__).parents[3] / "docs" / "module.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_the_example_makes_a_bundle_with_the_same_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(4)
    model = Seq2SeqTransformer(maxlen=512).eval()
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code, {"transformer": model, "vocabularies": {"de": SOURCE_WORDS, "en": TARGET_WORDS}})
    parity = load_bundle(Path("bundle")).manifest.parity
    assert parity is not None
    assert parity.greedy_equal == 1.0
    assert len(Translator("bundle").translate(TEXTS)) == len(TEXTS)
