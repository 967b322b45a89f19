"""Compare with OpenNMT-py 3 and eole themselves, on models that they train for a few hundred steps."""

import json
import subprocess
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from opennmt_training import MODELS, Model, cut_like, run, train
from tiny_checkpoint import SENTENCES
from tolerances import log_probability_rounding, network_rounding

from seq2edge import Translator
from seq2edge.results import Translation
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.model.transformer import Transformer

pytestmark = pytest.mark.peers

FRAMEWORKS = ["OpenNMT-py==3.5.1", "eole==0.6.4"]  # without what they pin: they run with the PyTorch that is here
NEEDED = [
    *("configargparse", "pyonmttok", "pyyaml", "rapidfuzz", "pyahocorasick", "six", "spacy", "fasttext-wheel"),
    *("pydantic", "subword-nmt", "aiohttp", "requests", "tqdm", "fastapi", "uvicorn", "regex", "huggingface_hub"),
    "pandas",
]
PEER = Path(__file__).parents[2] / "support" / "opennmt_peer.py"
TEXTS = SENTENCES[::14]  # 24 of those that the models are trained on


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an environment with both frameworks."""
    folder = tmp_path_factory.mktemp("frameworks")
    venv.create(folder, with_pip=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "beneath.pth").write_text(str(Path(torch.__file__).parents[1]), encoding="utf-8")
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for arguments in (NEEDED, ["--no-deps", *FRAMEWORKS]):
        done = subprocess.run([*pip, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"OpenNMT-py and eole cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    return folder / "bin" / "python"


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_trained_model_translates_as_in_its_framework(python: Path, tmp_path: Path, model: Model) -> None:
    checkpoint = train(python, tmp_path, model)
    bundle = export_bundle(checkpoint, tmp_path / "bundle", compare=False)  # the framework is the better original
    assert bundle.manifest.family == "opennmt"
    translator = Translator(bundle.folder, threads=1)
    found = translate(python, tmp_path, model, checkpoint, translator)
    greedy, beams = (translator.translate(TEXTS, num_beams=number) for number in (1, 4))
    check_forced(load_checkpoint(checkpoint).model, translator, found["1"])
    check_forced(load_checkpoint(checkpoint).model, translator, found["4"])
    assert [spelt(translator, result) for result in greedy] == found["1"]["tokens"]
    assert [result.text for result in greedy] == found["1"]["texts"]
    assert len(set(found["1"]["texts"])) > len(TEXTS) / 2  # it has learned to look at the source
    scores = [sum(result.token_scores) / (len(result.tokens) + 1) for result in greedy]
    np.testing.assert_allclose(scores, found["1"]["scores"], rtol=0, atol=mean_limit(translator))
    check_beams(translator, beams, found["4"])


def mean_limit(translator: Translator) -> float:
    """Bound the difference of a mean log-probability, for logits of about 20."""
    return log_probability_rounding(network_rounding(translator.manifest.architecture, size=20))


def check_forced(model: Transformer, translator: Translator, said: dict[str, Any]) -> None:
    """Check the scores of outputs of the framework, which counts start and end in the length."""
    size = model.architecture.target_vocabulary
    numbers = {translator.tokenizer.target.piece(number): number for number in range(size)}
    tokens = translator.manifest.tokens
    for text, pieces, score in zip(TEXTS, said["tokens"], said["scores"], strict=True):
        source = torch.tensor(translator.tokenizer.encode([text]))
        target = [numbers[piece] for piece in pieces] + [tokens.eos]
        with torch.no_grad():
            every = model.log_probabilities(source, source > -1, torch.tensor([[tokens.bos, *target[:-1]]]))[0]
        chosen = every[torch.arange(len(target)), target].sum()
        np.testing.assert_allclose(chosen / (len(target) + 1), score, rtol=0, atol=mean_limit(translator))


def check_beams(translator: Translator, results: list[Translation], said: dict[str, Any]) -> None:
    """Check that outputs are equal or more likely, since our search keeps all beams when some have ended."""
    same = [spelt(translator, found) == pieces for found, pieces in zip(results, said["tokens"], strict=True)]
    assert sum(same) >= len(TEXTS) - 2
    for is_same, found, text, score in zip(same, results, said["texts"], said["scores"], strict=True):
        ours = sum(found.token_scores) / (len(found.tokens) + 1)
        assert (found.text == text and abs(ours - score) < mean_limit(translator)) if is_same else ours > score


def spelt(translator: Translator, result: Translation) -> list[str]:
    """Return the tokens without the end token, which must be present."""
    *pieces, end = (translator.tokenizer.target.piece(number) for number in result.tokens)
    assert end == "</s>"
    return pieces


def translate(
    python: Path, folder: Path, model: Model, checkpoint: Path, translator: Translator
) -> dict[str, dict[str, Any]]:
    """Translate texts, and texts as tokens, with the framework."""
    job = {
        "model": str(checkpoint),
        "options": cut_like(model, folder),
        "texts": TEXTS,
        "tokens": [translator.tokenizer.tokenize_source(text) for text in TEXTS],
    }
    (folder / "wanted.json").write_text(json.dumps(job), encoding="utf-8")
    run(python, folder, str(PEER), model.framework, "wanted.json", "found.json")
    found: dict[str, dict[str, Any]] = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    return found
