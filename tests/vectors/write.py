"""Write the test vectors: tiny bundles, and what a reader of bundles in any language must compute with them.

Run  make vectors  after a change of the bundle format or of a quantized form; they do not depend on the default model.
Each folder is a bundle with one kind of decoder, and ``expected.json`` (docs/bundle.md explains it).
"""

import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))

import torch  # noqa: E402
from scripts_text import train_sentencepiece  # noqa: E402
from tiny_checkpoint import SENTENCES, TINY, write_checkpoint  # noqa: E402
from widened_bundle import write_widened  # noqa: E402

from seq2edge import Translator  # noqa: E402
from seq2edge.config.architecture import Architecture  # noqa: E402
from seq2edge_export.export import export_bundle  # noqa: E402
from seq2edge_export.training.tokenizer import JOINT  # noqa: E402

EXPECTED = "expected.json"
TEXTS = [*SENTENCES[:: len(SENTENCES) // 6], "the dog  SEES — 2 Häuser 🙂"]
DIGITS = 5  # of the stored logits


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoint = _checkpoint(folder / "checkpoint", TINY)
        recurrent = _checkpoint(folder / "recurrent_checkpoint", replace(TINY, decoder_cell="ssru"))
        export_bundle(checkpoint, folder / "inplace", compare=False)
        export_bundle(checkpoint, folder / "append", dialect="portable", compare=False)
        export_bundle(checkpoint, folder / "int8", precision="int8", compare=False)
        export_bundle(recurrent, folder / "recurrent", compare=False)
        for kind in ("inplace", "append", "recurrent", "int8"):
            _write(folder / kind, widened(folder, kind, folder / f"{kind}.float32"), HERE / kind)


def widened(folder: Path, kind: str, target: Path) -> Path:
    """Return the bundle to compute with: for int8 one with the same weights in float32, as a browser widens them."""
    return write_widened(folder / "int8", folder / "inplace", target) if kind == "int8" else folder / kind


def expectations(bundle: Path) -> list[dict[str, Any]]:
    """Return the ids, the logits after the start token, and the outputs for each text."""
    translator = Translator(bundle, threads=1)
    greedy, beam = (translator.translate(TEXTS, num_beams=beams, split="none") for beams in (1, 4))
    return [
        {
            "text": text,
            "ids": translator.tokenizer.encode([text])[0],
            "first_logits": first_logits(translator, text),
            "greedy": list(one.tokens),
            "beam": list(best.tokens),
            "translation": best.text,
        }
        for text, one, best in zip(TEXTS, greedy, beam, strict=True)
    ]


def first_logits(translator: Translator, text: str) -> list[float]:
    import numpy as np

    state = translator.engine.start([translator.tokenizer.encode([text])[0]])
    start = translator.manifest.generation.decoder_start_token_id
    logits = state.step(np.array([[[start]]]), np.array([[0]])).logits
    return [round(float(value), DIGITS) for value in logits[0, 0]]


def _checkpoint(folder: Path, architecture: Architecture) -> Path:
    """Write a tiny checkpoint, with a vocabulary that has no normalization tables, which are larger than the rest."""
    write_checkpoint(folder, architecture)
    texts = [*SENTENCES, *(text[::-1] for text in SENTENCES)]
    ids = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    model = train_sentencepiece(texts, 300, normalization_rule_name="identity", **ids)
    (folder / JOINT).write_bytes(model)
    return folder


def _write(bundle: Path, computed: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(bundle, target)
    content = {"sentences": expectations(computed)}
    (target / EXPECTED).write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
