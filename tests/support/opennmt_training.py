"""Train tiny models with OpenNMT-py and eole to reverse the order of words."""

import io
import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tiny_checkpoint import SENTENCES

STEPS = 300
SIDES = {"src": SENTENCES, "tgt": [" ".join(reversed(text.split())) for text in SENTENCES]}
TRAINING = {
    "train_steps": STEPS,
    "save_checkpoint_steps": STEPS,
    "valid_steps": STEPS * 2,
    "batch_size": 32,
    "batch_type": "sents",
    "bucket_size": len(SENTENCES),
    "num_workers": 0,
    "world_size": 1,
    "gpu_ranks": [],
    "optim": "adam",
    "learning_rate": 0.5,
    "decay_method": "noam",
    "warmup_steps": 100,
    "dropout": [0.0],
    "attention_dropout": [0.0],
}


@dataclass(frozen=True)
class Model:
    """The settings that differ between trained models."""

    framework: str
    cutter: str
    shared: bool  # source and target share a vocabulary
    options: dict[str, Any]


MODELS = {
    "OpenNMT-py": Model(
        "onmt",
        "sentencepiece",
        True,
        {"position_encoding": True, "share_embeddings": True, "share_decoder_embeddings": True},
    ),
    "OpenNMT-py with other settings": Model(
        "onmt",
        "bpe",
        False,
        {
            "position_encoding": True,
            "position_encoding_type": "SinusoidalConcat",
            "layer_norm": "rms",
            "pos_ffn_activation_fn": "silu",
            "add_qkvbias": True,
            "add_ffnbias": True,
            "num_kv": 2,
            "save_format": "safetensors",
        },
    ),
    "eole": Model(
        "eole",
        "sentencepiece",
        True,
        {
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "embeddings": {"word_vec_size": 64, "position_encoding_type": "SinusoidalInterleaved"},
        },
    ),
    "eole with other settings": Model(
        "eole",
        "onmt_tokenize",
        False,
        {
            "share_decoder_embeddings": True,
            "embeddings": {"word_vec_size": 64, "position_encoding_type": "Learned", "n_positions": 60},
            "layer_norm": "rms",
            "mlp_activation_fn": "gated-gelu",
            "add_qkvbias": True,
            "add_final_linear_bias": True,  # by default, eole 0.6 trains an encoder without one and then adds it
            "add_ffnbias": True,
            "heads_kv": 1,
        },
    ),
}


def train(python: Path, folder: Path, model: Model) -> Path:
    """Train a model and return its checkpoint; all files are in the folder."""
    for side, lines in SIDES.items():
        write_lines(folder / f"text.{side}", lines)
    for side, tokens in cut(python, folder, model).items():
        write_lines(folder / f"vocabulary.{side}", sorted(set(tokens)))
    config = onmt_config(model) if model.framework == "onmt" else eole_config(model)
    (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML too
    program = ["onmt.bin.train"] if model.framework == "onmt" else ["eole.bin.main", "train"]
    run(python, folder, "-m", *program, "-config", "config.yaml")
    for path in folder.glob("model_step_*.safetensors"):
        path.rename(path.with_suffix(".00.safetensors"))  # OpenNMT-py writes no number, but reads only numbered files
    return folder / (f"model_step_{STEPS}.pt" if model.framework == "onmt" else "model")


def cut_like(model: Model, folder: Path) -> dict[str, str]:
    """Return the options of OpenNMT-py that tokenize texts as in training."""
    names = {side: str(folder / subwords(model, side)) for side in SIDES}
    return {"transforms": model.cutter, "src_subword_model": names["src"], "tgt_subword_model": names["tgt"]}


def cut(python: Path, folder: Path, model: Model) -> dict[str, list[str]]:
    """Train the subword models and return the tokens of both sides, together if the vocabulary is shared."""
    lines = {"": SIDES["src"] + SIDES["tgt"]} if model.shared else SIDES
    tokens = {}
    for side, texts in lines.items():
        made = cut_bpe if model.cutter == "bpe" else cut_pieces
        tokens[side] = made(python, folder / subwords(model, side), texts)
    return {side: tokens["" if model.shared else side] for side in SIDES}


def subwords(model: Model, side: str) -> str:
    suffix = "codes" if model.cutter == "bpe" else "model"
    return f"shared.{suffix}" if model.shared else f"{side}.{suffix}"


def cut_pieces(python: Path, path: Path, texts: list[str]) -> list[str]:
    content = io.BytesIO()
    SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=content, vocab_size=64, minloglevel=2)
    path.write_bytes(content.getvalue())
    return [
        piece for text in SentencePieceProcessor(model_file=str(path)).encode(texts, out_type=str) for piece in text
    ]


def cut_bpe(python: Path, path: Path, texts: list[str]) -> list[str]:
    plain, cut = path.with_suffix(".plain"), path.with_suffix(".cut")
    write_lines(plain, texts)
    run(python, path.parent, "-m", "subword_nmt.learn_bpe", "-s", "60", "-i", str(plain), "-o", str(path))
    run(python, path.parent, "-m", "subword_nmt.apply_bpe", "-c", str(path), "-i", str(plain), "-o", str(cut))
    return cut.read_text(encoding="utf-8").split()


def onmt_config(model: Model) -> dict[str, Any]:
    sizes = {"enc_layers": 2, "dec_layers": 2, "heads": 4, "hidden_size": 64, "word_vec_size": 64, "transformer_ff": 96}
    types = {"encoder_type": "transformer", "decoder_type": "transformer"}
    files = {f"{side}_subword_model": subwords(model, side) for side in SIDES}
    return _data(model) | TRAINING | sizes | types | files | {"save_model": "model"} | model.options


def eole_config(model: Model) -> dict[str, Any]:
    cutter = {f"{side}_subword_model": subwords(model, side) for side in SIDES}
    if model.cutter == "onmt_tokenize":
        cutter |= {f"{side}_subword_type": "sentencepiece" for side in SIDES}
    sizes = {"architecture": "transformer", "layers": 2, "heads": 4, "hidden_size": 64, "transformer_ff": 96}
    return _data(model) | {
        "transforms_configs": {model.cutter: cutter},
        "training": TRAINING | {"model_path": "model", "dropout_steps": [0], "compute_dtype": "fp32"},
        "model": sizes | model.options,
    }


def _data(model: Model) -> dict[str, Any]:
    texts = {f"path_{side}": f"text.{side}" for side in SIDES}
    return {
        "seed": 1,
        "overwrite": True,
        "save_data": "data",
        "share_vocab": model.shared,
        **{f"{side}_vocab": f"vocabulary.{side}" for side in SIDES},
        "data": {
            "corpus": texts | {"transforms": [model.cutter, "filtertoolong"]},
            "valid": texts | {"transforms": [model.cutter]},
        },
    }


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def run(python: Path, folder: Path, *arguments: str) -> None:
    """Run a program of a framework, which may unpickle its own files."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    chosen = {"OMP_NUM_THREADS": "1", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [str(python), *arguments], cwd=folder, env=kept | chosen, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr[-2000:]
