"""Measure the peak memory of ``seq2edge export`` beyond its libraries, relative to the checkpoint file.

    python benchmarks/export_memory.py [--megabytes 600] [--file model.safetensors]    prints JSON lines

The checkpoints are Hugging Face folders of a Marian model with seeded weights, in float32 and float16, as safetensors
and as .bin; each is exported with and without verification. The memory of the libraries is the peak of the same command
with a model of a hundredth of the size. Every export is a separate process, since a peak never falls. "private"
excludes pages of files, which the system reclaims when it needs them.
"""

import json
import multiprocessing
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click

PIECES = Path(__file__).parents[1] / "models" / "en-pt" / "tokenizer.model"
LARGE_WIDTH, SMALL_WIDTH = 1024, 16
VOCABULARY = 32_000
FILES = ("model.safetensors", "pytorch_model.bin")
LENGTH = 48  # of outputs: an untrained model never ends its output, and the search keeps all tokens
BYTES_PER_LAYER = 118e6  # of an encoder and a decoder layer of LARGE_WIDTH, in float32


@dataclass(frozen=True)
class Export:
    """Memory and time of an export."""

    peak: int  # bytes
    private: int
    seconds: float


@click.command()
@click.option("--megabytes", default=600, show_default=True, help="Approximate size of the checkpoint in float32.")
@click.option("--file", "files", type=click.Choice(FILES), multiple=True, default=FILES, show_default=True)
def main(megabytes: int, files: tuple[str, ...]) -> None:
    """Export every type of checkpoint, with and without verification."""
    with TemporaryDirectory() as temporary:
        small, large = Path(temporary) / "small", Path(temporary) / "large"
        layers = round((megabytes * 1e6 - 4 * VOCABULARY * LARGE_WIDTH) / BYTES_PER_LAYER)
        in_subprocess(write_folder, small, SMALL_WIDTH, 1)
        in_subprocess(write_folder, large, LARGE_WIDTH, layers)
        libraries = {compare: export(small, compare) for compare in (False, True)}
        for dtype in ("float32", "float16"):
            for file in files:
                in_subprocess(store, large, dtype, file)
                for compare in (False, True):
                    made = export(large, compare)
                    print(json.dumps(row(large / file, dtype, compare, made, libraries[compare])), flush=True)


def in_subprocess(function: Callable[..., None], *arguments: object) -> None:
    """Call a function in a separate process: the peak of an export starts at the memory of this process."""
    child = multiprocessing.get_context("spawn").Process(target=function, args=arguments)
    child.start()
    child.join()
    if child.exitcode:
        raise click.ClickException(f"{function.__name__} failed")


def row(file: Path, dtype: str, compare: bool, made: Export, libraries: Export) -> dict[str, object]:
    size, beyond = file.stat().st_size, made.peak - libraries.peak
    return {
        "checkpoint": f"{dtype} {file.suffix}",
        "compared": compare,
        "megabytes": round(size / 1e6),
        "libraries": round(libraries.peak / 1e6),
        "beyond_libraries": round(beyond / 1e6),
        "ratio": round(beyond / size, 2),
        "private_ratio": round((made.private - libraries.private) / size, 2),
        "seconds": round(made.seconds, 1),
    }


def export(folder: Path, compare: bool) -> Export:
    """Run the command and return its peak memory."""
    with TemporaryDirectory() as temporary:
        arguments = ["export", str(folder), str(Path(temporary) / "bundle"), "--verify" if compare else "--no-verify"]
        began = time.perf_counter()
        child = subprocess.Popen([sys.executable, "-m", "seq2edge", *arguments], stdout=subprocess.DEVNULL)
        samples: list[int] = []
        watcher = threading.Thread(target=sample_private, args=(child.pid, samples))
        watcher.start()
        _, status, usage = os.wait4(child.pid, 0)
        watcher.join()
    if status:
        raise click.ClickException(f"the export of {folder} failed")
    return Export(usage.ru_maxrss * 1024, max(samples), time.perf_counter() - began)


def sample_private(process: int, samples: list[int]) -> None:
    """Sample the private memory of a process until it ends."""
    while True:
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            return
        if (match := re.search(r"RssAnon:\s+(\d+)", status)) is None:  # it has ended
            return
        samples.append(int(match[1]) * 1024)
        time.sleep(0.01)


def write_folder(folder: Path, width: int, layers: int) -> None:
    """Write a folder like those of OPUS-MT, with the vocabulary of the default model."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    from seq2edge.text.vocabularies import load_sentencepiece

    folder.mkdir()
    pieces = load_sentencepiece(PIECES)
    tokens = ["</s>", "<unk>", *(pieces.piece(number) for number in range(4, pieces.get_piece_size())), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(PIECES.read_bytes())
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        max_position_embeddings=512,
        pad_token_id=len(tokens) - 1,
        decoder_start_token_id=len(tokens) - 1,
        eos_token_id=0,
        forced_eos_token_id=0,
    )
    model = MarianMTModel(config)
    model.generation_config.max_length = LENGTH
    model.save_pretrained(folder)


def store(folder: Path, dtype: str, file: str) -> None:
    """Replace the weights file of a folder by one in another format."""
    import torch
    from safetensors.torch import save_file

    from seq2edge_export.loaders.hugging_face.weights import read_weights

    state = {name: tensor.to(getattr(torch, dtype), copy=True) for name, tensor in read_weights(folder).items()}
    for old in (*folder.glob("*.safetensors"), *folder.glob("*.bin")):
        old.unlink()
    if file.endswith(".safetensors"):
        save_file(state, folder / file)
    else:
        torch.save(state, folder / file)


if __name__ == "__main__":
    main()
