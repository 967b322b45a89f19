"""Write tiny models in Marian's formats and compute them in numpy, independently of the reader."""

import io
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sentencepiece import SentencePieceTrainer
from tiny_checkpoint import SENTENCES

Array = NDArray[Any]
Format = Literal[
    "float32", "float16", "intgemm8", "bergamot8", "ssse3", "avx2", "avx512", "vnni", "intgemm16", "avx2_16"
]
EOS, UNK = 0, 1
STUDENT: dict[str, Any] = {
    "type": "transformer",
    "version": "v1.9.56 94aeaa46 2021-04-28 00:28:35 +0100",
    "dim-vocabs": [64, 64],
    "dim-emb": 64,
    "enc-depth": 2,
    "dec-depth": 2,
    "dec-cell": "ssru",
    "enc-cell": "gru",
    "dim-rnn": 1024,
    "skip": False,
    "layer-normalization": False,
    "right-left": False,
    "input-types": [],
    "tied-embeddings": False,
    "tied-embeddings-all": True,
    "tied-embeddings-src": False,
    "output-omit-bias": False,
    "lemma-dim-emb": 0,
    "ulr": False,
    "transformer-heads": 4,
    "transformer-dim-ffn": 128,
    "transformer-ffn-depth": 2,
    "transformer-ffn-activation": "relu",
    "transformer-decoder-autoreg": "rnn",
    "transformer-guided-alignment-layer": "last",
    "transformer-no-projection": False,
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
    "transformer-tied-layers": [],
    "transformer-train-position-embeddings": False,
}
TEACHER = STUDENT | {"transformer-decoder-autoreg": "self-attention", "transformer-ffn-activation": "swish"}
APART = {"tied-embeddings-all": False, "dim-vocabs": [80, 64]}
PRE = {
    "version": "v1.12.0 0000000 2023-02-20",
    "transformer-preprocess": "n",
    "transformer-postprocess": "da",
    "transformer-postprocess-top": "n",
}
VARIANTS: dict[str, dict[str, Any]] = {
    "student": STUDENT,
    "teacher": TEACHER,
    "norms before": TEACHER | PRE,
    "norms before, recurrent": STUDENT | PRE | {"transformer-postprocess-emb": "nd"},
    "RMS norms": TEACHER | {"transformer-postprocess": "dar", "transformer-postprocess-emb": "dr"},
    "RMS norms before": STUDENT | PRE | {"transformer-preprocess": "r", "transformer-postprocess-top": "r"},
    "all apart": TEACHER | APART | {"transformer-ffn-activation": "gelu"},
    "tied target": STUDENT | APART | {"tied-embeddings": True},
    "tied inputs": STUDENT | {"tied-embeddings-all": False, "tied-embeddings-src": True},
    "tied inputs and output": STUDENT
    | {"tied-embeddings-all": False, "tied-embeddings-src": True, "tied-embeddings": True},
    "no projection": TEACHER | {"transformer-no-projection": True, "output-omit-bias": True},
    "no bias": TEACHER | {"transformer-no-bias": True, "transformer-no-affine": True},
    "tied layers": STUDENT | {"dec-depth": 4, "transformer-tied-layers": [1, 2, 2, 1]},
    "no positions": TEACHER | {"transformer-disable-position-embeddings": True},
    "one and three layers": TEACHER | {"enc-depth": 1, "dec-depth": 3, "transformer-postprocess-top": "n"},
}


@dataclass
class Marian:
    """The content of a model file; tests change it before it is written."""

    config: dict[str, Any]
    tensors: dict[str, Array] = field(default_factory=dict)  # float32, in Marian's layout


def made(config: Mapping[str, Any] = STUDENT, seed: int = 6) -> Marian:
    """Return a model with random weights, large enough for different outputs."""
    random = np.random.default_rng(seed)
    model = Marian(dict(config))
    for name, shape in _shapes(model.config):
        spread = 0.3
        if shape[0] > 1:
            inputs = shape[1 if name.endswith(("Wemb", "Wt")) else 0]
            spread = (3.0 if "context" in name else 1.0 if name.endswith("Wemb") else 1.5) * inputs**-0.5
        numbers = random.normal(0, spread, shape) + ("_scale" in name)
        model.tensors[name] = numbers.astype(np.float32)
    if "decoder_ff_logit_out_b" in model.tensors:
        model.tensors["decoder_ff_logit_out_b"][0, EOS] += 2  # so that some outputs end
    return model


def _shapes(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, ffn = config["dim-emb"], config["transformer-dim-ffn"]
    source, target = config["dim-vocabs"]
    if config["tied-embeddings-all"] or config["tied-embeddings-src"]:
        yield "Wemb", (target, width)
    else:
        yield "encoder_Wemb", (source, width)
        yield "decoder_Wemb", (target, width)
    if not config["tied-embeddings-all"] and not config["tied-embeddings"]:
        yield "decoder_ff_logit_out_Wt", (target, width)
    if not config["output-omit-bias"]:
        yield "decoder_ff_logit_out_b", (1, target)
    for side in ("encoder", "decoder"):
        yield from _norms(f"{side}_emb", config["transformer-postprocess-emb"], "_pre", config)
        yield from _norms(f"{side}_top", config["transformer-postprocess-top"], "", config)
    for layer in range(1, config["enc-depth"] + 1):
        yield from _attention(f"encoder_l{layer}_self", config)
        yield from _feed_forward(f"encoder_l{layer}_ffn", width, ffn, config)
    for layer in sorted(set(config["transformer-tied-layers"])) or range(1, config["dec-depth"] + 1):
        yield from _attention(f"decoder_l{layer}_context", config)
        yield from _feed_forward(f"decoder_l{layer}_ffn", width, ffn, config)
        if config["transformer-decoder-autoreg"] == "self-attention":
            yield from _attention(f"decoder_l{layer}_self", config)
            continue
        name = f"decoder_l{layer}_rnn"
        yield from [(f"{name}_W", (width, width)), (f"{name}_Wf", (width, width)), (f"{name}_bf", (1, width))]
        yield from _norms(name, config["transformer-preprocess"], "_pre", config)
        yield from _norms(f"{name}_ffn", config["transformer-postprocess"], "", config)


def _attention(name: str, config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width = config["dim-emb"]
    for letter in "qkv" if config["transformer-no-projection"] else "qkvo":
        yield f"{name}_W{letter}", (width, width)
        if not config.get("transformer-no-bias"):
            yield f"{name}_b{letter}", (1, width)
    yield from _norms(f"{name}_Wo", config["transformer-preprocess"], "_pre", config)
    yield from _norms(f"{name}_Wo", config["transformer-postprocess"], "", config)


def _feed_forward(name: str, width: int, ffn: int, config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from [(f"{name}_W1", (width, ffn)), (f"{name}_W2", (ffn, width))]
    if not config.get("transformer-no-bias"):
        yield from [(f"{name}_b1", (1, ffn)), (f"{name}_b2", (1, width))]
    yield from _norms(f"{name}_ffn", config["transformer-preprocess"], "_pre", config)
    yield from _norms(f"{name}_ffn", config["transformer-postprocess"], "", config)


def _norms(name: str, operations: str, suffix: str, config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    if config.get("transformer-no-affine"):
        return
    if "n" in operations:
        yield from [(f"{name}_ln_{kind}{suffix}", (1, config["dim-emb"])) for kind in ("scale", "bias")]
    if "r" in operations:
        yield f"{name}_rms_scale{suffix}", (1, config["dim-emb"])


def _output(config: Mapping[str, Any]) -> str:
    """Return the name of the output projection."""
    if config["tied-embeddings-all"] or (config["tied-embeddings"] and config["tied-embeddings-src"]):
        return "Wemb"
    return "decoder_Wemb" if config["tied-embeddings"] else "decoder_ff_logit_out_Wt"


class Reference:
    """Marian's model in double precision, one sentence and one token at a time."""

    def __init__(self, model: Marian) -> None:
        self.config = model.config
        self.tensors = {name: tensor.astype(np.float64) for name, tensor in model.tensors.items()}
        self.width = model.config["dim-emb"]

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Array:  # (T + 1, V)
        """Return the logits of the first token, and of the one after each target token."""
        context = self._encode(source)
        step = _Steps(self, context)
        return np.stack([step(None), *(step(token) for token in target)])

    def greedy(self, source: Sequence[int], most: int) -> list[int]:
        """Return the most likely tokens except the unknown one, up to the end token."""
        step, found = _Steps(self, self._encode(source)), []
        token: int | None = None
        while len(found) < most and token != EOS:
            logits = step(token)
            logits[UNK] = -np.inf
            token = int(logits.argmax())
            found.append(token)
        return found

    def _encode(self, source: Sequence[int]) -> Array:
        states = self.embed(self._table("encoder")[list(source)], 0)
        states = self.process("encoder_emb", "postprocess-emb", states, None, "_pre")
        for layer in range(1, self.config["enc-depth"] + 1):
            states = self.attend(f"encoder_l{layer}_self", states, None)
            states = self.feed_forward(f"encoder_l{layer}_ffn", states)
        return self.process("encoder_top", "postprocess-top", states, states, "")

    def embed(self, vectors: Array, start: int) -> Array:
        if self.config.get("transformer-disable-position-embeddings"):
            return vectors
        waves = self.width // 2
        lengths = np.exp(-np.arange(waves) * np.log(10000) / (waves - 1))
        angles = (start + np.arange(len(vectors)))[:, None] * lengths
        return vectors * self.width**0.5 + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    def token(self, token: int | None) -> Array:
        return np.zeros((1, self.width)) if token is None else self._table("decoder")[[token]]

    def attend(self, name: str, states: Array, seen: Array | None) -> Array:
        """Compute an attention sublayer; self-attention if ``seen`` is None."""
        heads, normed = self.config["transformer-heads"], self.process(f"{name}_Wo", "preprocess", states, None, "_pre")
        seen = normed if seen is None else seen
        queries, keys, values = (
            self.linear(name, letter, one).reshape(len(one), heads, -1).swapaxes(0, 1)
            for letter, one in (("q", normed), ("k", seen), ("v", seen))
        )
        scores = queries @ keys.swapaxes(1, 2) / keys.shape[2] ** 0.5
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        mixed = (weights / weights.sum(axis=2, keepdims=True) @ values).swapaxes(0, 1).reshape(len(states), -1)
        update = mixed if self.config["transformer-no-projection"] else self.linear(name, "o", mixed)
        return self.process(f"{name}_Wo", "postprocess", update, states, "")

    def feed_forward(self, name: str, states: Array) -> Array:
        inner = self.linear(name, "1", self.process(f"{name}_ffn", "preprocess", states, None, "_pre"))
        factor = {"swish": 1.0, "gelu": 1.702}.get(self.config["transformer-ffn-activation"])
        inner = np.maximum(inner, 0) if factor is None else inner / (1 + np.exp(-factor * inner))
        return self.process(f"{name}_ffn", "postprocess", self.linear(name, "2", inner), states, "")

    def linear(self, name: str, part: str, states: Array) -> Array:
        return states @ self.tensors[f"{name}_W{part}"] + self.tensors.get(f"{name}_b{part}", 0.0)

    def process(self, name: str, option: str, states: Array, before: Array | None, suffix: str) -> Array:
        for operation in self.config[f"transformer-{option}"]:
            if operation == "a":
                assert before is not None
                states = states + before
            elif operation == "n":
                spread = np.sqrt(states.var(axis=1, keepdims=True) + 1e-6)
                states = (states - states.mean(axis=1, keepdims=True)) / spread
                states = states * self.tensors.get(f"{name}_ln_scale{suffix}", 1.0)
                states = states + self.tensors.get(f"{name}_ln_bias{suffix}", 0.0)
            elif operation == "r":
                states = states / np.sqrt((states**2).mean(axis=1, keepdims=True) + 1e-6)
                states = states * self.tensors.get(f"{name}_rms_scale{suffix}", 1.0)
        return states

    def project(self, states: Array) -> Array:
        bias = self.tensors.get("decoder_ff_logit_out_b", np.zeros((1, 1)))[0]
        projected: Array = states @ self.tensors[_output(self.config)].T + bias
        return projected

    def _table(self, side: str) -> Array:
        return self.tensors.get("Wemb", self.tensors.get(f"{side}_Wemb"))  # type: ignore[return-value]


class _Steps:
    """The decoder: each call takes the previous token, None at the start, and returns the logits of the next."""

    def __init__(self, model: Reference, context: Array) -> None:
        self.model, self.context, self.count = model, context, 0
        depth = model.config["dec-depth"]
        self.layers = model.config["transformer-tied-layers"] or list(range(1, depth + 1))
        self.before: list[Array] = [np.zeros((0, model.width)) for _ in self.layers]
        self.cells: list[Array] = [np.zeros((1, model.width)) for _ in self.layers]

    def __call__(self, token: int | None) -> Array:
        model = self.model
        states = model.embed(model.token(token), self.count)  # (1, D)
        states = model.process("decoder_emb", "postprocess-emb", states, None, "_pre")
        for index, layer in enumerate(self.layers):
            states = self._autoregression(f"decoder_l{layer}", index, states)
            states = model.attend(f"decoder_l{layer}_context", states, self.context)
            states = model.feed_forward(f"decoder_l{layer}_ffn", states)
        self.count += 1
        return model.project(model.process("decoder_top", "postprocess-top", states, states, ""))[0]

    def _autoregression(self, name: str, index: int, states: Array) -> Array:
        model = self.model
        if model.config["transformer-decoder-autoreg"] == "self-attention":
            normed = model.process(f"{name}_self_Wo", "preprocess", states, None, "_pre")
            self.before[index] = np.concatenate([self.before[index], normed])
            return model.attend(f"{name}_self", states, self.before[index])
        normed = model.process(f"{name}_rnn", "preprocess", states, None, "_pre")
        keep = 1 / (1 + np.exp(-model.linear(f"{name}_rnn", "f", normed)))
        self.cells[index] = keep * self.cells[index] + (1 - keep) * (normed @ model.tensors[f"{name}_rnn_W"])
        return model.process(f"{name}_rnn_ffn", "postprocess", np.maximum(self.cells[index], 0), states, "")


# type, dtype, bytes of a register
INTEGERS = {
    "intgemm8": (0x10001, np.int8, 0),
    "bergamot8": (0x4101, np.int8, 0),
    "ssse3": (0x18001, np.int8, 16),
    "avx2": (0x11001, np.int8, 32),
    "avx512": (0x12001, np.int8, 64),
    "vnni": (0x13001, np.int8, 64),
    "intgemm16": (0x10002, np.int16, 0),
    "avx2_16": (0x11002, np.int16, 32),
}


def is_rounded(name: str, form: Format) -> bool:
    """Return whether Marian's converter quantizes a tensor."""
    is_matrix = name.rfind("_W") in (len(name) - 3, len(name) - 2) and "_ln_" not in name
    return form in INTEGERS and (is_matrix or (form == "bergamot8" and name.endswith("Wemb")))


def rounded(name: str, tensor: Array, form: Format) -> tuple[Array, np.float32]:
    """Return the integers of a tensor in its own layout, and their scale."""
    _, dtype, _ = INTEGERS[form]
    scale = np.float32(1024) if dtype == np.int16 else np.float32(127) / np.abs(tensor).max()
    return np.clip(np.rint(tensor * scale), -127 if dtype == np.int8 else -32768, 32767).astype(dtype), scale


def left_of(name: str, tensor: Array, form: Format) -> Array:
    """Return a tensor after quantization."""
    if form == "float16":
        return tensor.astype(np.float16).astype(np.float32)
    if not is_rounded(name, form):
        return tensor
    integers, scale = rounded(name, tensor, form)
    return integers.astype(np.float32) * (np.float32(1) / scale)


def write_npz(path: Path, model: Marian, **more: Any) -> Path:
    text = np.frombuffer((yaml_of(model.config) + "\0").encode(), np.int8)
    arrays = {**model.tensors, "special:model.yml": text, **more}
    with path.open("wb") as file:
        np.savez(file, **arrays)
    return path


def write_bin(path: Path, model: Marian, form: Format = "float32") -> Path:
    path.write_bytes(bin_of(model, form))
    return path


def bin_of(model: Marian, form: Format = "float32", *, extra: Mapping[str, Array] | None = None) -> bytes:
    items = [(name, *_item(name, tensor, form)) for name, tensor in sorted(model.tensors.items())]
    for name, tensor in (extra or {}).items():
        items.append((name, *_item(name, tensor, "float32")))
    if form in INTEGERS:
        items.append(("none_QuantMultA", *_item("none_QuantMultA", np.ones((1, 1), np.float32), "float32")))
        items.append(("Wemb_QuantMultA", 0x4101, (1, 1), bytes(256)))
    text = (yaml_of(model.config) + "\0").encode()
    return packed([*items, ("special:model.yml", 0x101, (len(text),), text)])


def packed(items: Sequence[tuple[str, int, tuple[int, ...], bytes]]) -> bytes:
    """Return the file: headers, names, shapes, padding to a multiple of 256, contents."""
    out = io.BytesIO()
    out.write(struct.pack("<QQ", 1, len(items)))
    for name, kind, shape, content in items:
        out.write(struct.pack("<QQQQ", len(name.encode()) + 1, kind, len(shape), len(content)))
    for name, *_ in items:
        out.write(name.encode() + b"\0")
    for _, _, shape, _ in items:
        out.write(struct.pack(f"<{len(shape)}i", *shape))
    gap = 256 - (out.tell() + 8) % 256
    out.write(struct.pack("<Q", gap) + bytes(gap))
    for *_, content in items:
        out.write(content)
    return out.getvalue()


def _item(name: str, tensor: Array, form: Format) -> tuple[int, tuple[int, ...], bytes]:
    if not is_rounded(name, form):
        kind, content = (0x402, tensor.astype("<f2")) if form == "float16" else (0x404, tensor.astype("<f4"))
        return kind, tensor.shape, content.tobytes() + bytes(-content.nbytes % 256)
    kind, dtype, register = INTEGERS[form]
    integers, scale = rounded(name, tensor, form)
    if not name.endswith("Wemb"):
        integers = integers.T
        if register:
            integers = _prepared(integers, register // np.dtype(dtype).itemsize)
    content = np.ascontiguousarray(integers).tobytes() + struct.pack("<f", scale)
    return kind, tensor.shape, content + bytes(-len(content) % 256)


def _prepared(transposed: Array, length: int) -> Array:
    """Store eight columns at a time, cut into runs of the length of a register."""
    found = [
        transposed[column + offset, row : row + length]
        for column in range(0, transposed.shape[0], 8)
        for row in range(0, transposed.shape[1], length)
        for offset in range(8)
    ]
    return np.concatenate(found)


def yaml_of(config: Mapping[str, Any]) -> str:
    lines = []
    for name, value in sorted(config.items()):
        if isinstance(value, list):
            lines += [f"{name}:", *(f"  - {one}" for one in value)] if value else [f"{name}: []"]
        elif isinstance(value, bool):
            lines.append(f"{name}: {str(value).lower()}")
        else:
            lines.append(f'{name}: "{value}"' if value == "" else f"{name}: {value}")
    return "\n".join(lines) + "\n"


@cache
def pieces(size: int = 64) -> bytes:
    """Return a SentencePiece model with the special ids of Marian."""
    out = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=out,
        vocab_size=size,
        bos_id=-1,
        eos_id=EOS,
        unk_id=UNK,
        minloglevel=2,
    )
    return out.getvalue()


def write_folder(folder: Path, model: Marian | None = None, form: Format = "float32", search: str = "") -> Path:
    """Write a model with its vocabulary, as Bergamot ships it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_bin(folder / "model.xx.intgemm.alphas.bin", model or made(), form)
    (folder / "vocab.xx.spm").write_bytes(pieces())
    (folder / "lex.50.50.xx.s2t.bin").write_bytes(struct.pack("<QQ", 0xF11A48D5013417F5, 1) + bytes(64))
    if search:
        (folder / "config.intgemm8bitalpha.yml").write_text(search, encoding="utf-8")
    return folder
