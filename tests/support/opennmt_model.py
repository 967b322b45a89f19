"""Write tiny models in the formats of OpenNMT-py 3 and eole, and compute them independently of the reader.

The tensors have eole's names; ``as_onmt`` converts them to those of OpenNMT-py.
"""

import argparse
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from ctranslate2_model import vocabulary
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

PIECES = ("<unk>", "<blank>", "<s>", "</s>", *vocabulary()[1][2:])
WIDTH, FEED_FORWARD, LAYERS, ROWS = 32, 48, 2, 70
ACTIVATIONS: Mapping[str, Any] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "gelu-tanh": lambda states: functional.gelu(states, approximate="tanh"),
    "quick_gelu": lambda states: states * torch.sigmoid(1.702 * states),
}
ONMT_NAMES = (
    (r"^src_emb\.embeddings", "encoder.embeddings.make_embedding.emb_luts.0"),
    (r"^tgt_emb\.embeddings", "decoder.embeddings.make_embedding.emb_luts.0"),
    (r"^src_emb\.pe", "encoder.embeddings.make_embedding.pe"),
    (r"^tgt_emb\.pe", "decoder.embeddings.make_embedding.pe"),
    (r"^encoder\.transformer_layers", "encoder.transformer"),
    (r"(encoder.*)\.input_layernorm", r"\1.layer_norm"),
    (r"(decoder.*)\.input_layernorm", r"\1.layer_norm_1"),
    (r"precontext_layernorm", "layer_norm_2"),
    (r"post_attention_layernorm", "feed_forward.layer_norm"),
    (r"mlp\.gate_up_proj", "feed_forward.w_1"),
    (r"mlp\.down_proj", "feed_forward.w_2"),
    (r"mlp\.up_proj", "feed_forward.w_3"),
)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The settings of a model in both frameworks, independent of ours."""

    heads: int = 4
    key_heads: int = 4
    head_width: int = WIDTH // 4
    scaling: float | None = None  # eole only
    activation: str = "relu"
    gated: bool = False
    norm: Literal["standard", "rms"] = "standard"
    epsilon: float = 1e-6
    positions: Literal["SinusoidalInterleaved", "SinusoidalConcat", "Learned", None] = "SinusoidalInterleaved"
    normalize: bool = False  # eole only
    shift: int = 0  # eole only
    attention_bias: bool = False
    feed_forward_bias: bool = False
    output_bias: bool = True
    shared: bool = True
    tied: bool = True
    source_tokens: int = len(PIECES)


def seeded(shape: Shape, seed: int = 7) -> dict[str, Tensor]:
    """Return random tensors, large enough for different outputs that end."""
    made = _Tensors(shape, seed)
    made.embeddings()
    for number in range(LAYERS):
        made.layer(f"encoder.transformer_layers.{number}", cross=False)
        made.layer(f"decoder.transformer_layers.{number}", cross=True)
    made.norm("encoder.layer_norm")
    made.norm("decoder.layer_norm")
    made.linear("generator", len(PIECES), WIDTH, shape.output_bias)
    if shape.tied:
        made.state["generator.weight"] = made.state["tgt_emb.embeddings.weight"]
    if shape.output_bias:
        made.state["generator.bias"][PIECES.index("</s>")] += 3
        made.state["generator.bias"][[piece.startswith("<0x") for piece in PIECES]] -= 20  # bytes are not text
    return made.state


class _Tensors:
    def __init__(self, shape: Shape, seed: int) -> None:
        self.shape = shape
        self.random = torch.Generator().manual_seed(seed)
        self.state: dict[str, Tensor] = {}

    def numbers(self, *sizes: int, scale: float) -> Tensor:
        return torch.randn(sizes, generator=self.random) * scale

    def embeddings(self) -> None:
        source = self.numbers(self.shape.source_tokens, WIDTH, scale=WIDTH**-0.5)
        target = source if self.shape.shared else self.numbers(len(PIECES), WIDTH, scale=WIDTH**-0.5)
        self.state |= {"src_emb.embeddings.weight": source, "tgt_emb.embeddings.weight": target}
        for side in ("src", "tgt"):
            self.state |= _positions(self.shape, side, self.numbers(ROWS, WIDTH, scale=0.5))

    def layer(self, name: str, *, cross: bool) -> None:
        bias = self.shape.feed_forward_bias
        self.norm(f"{name}.input_layernorm")
        self.attention(f"{name}.self_attn")
        if cross:
            self.norm(f"{name}.precontext_layernorm")
            self.attention(f"{name}.context_attn")
        self.norm(f"{name}.post_attention_layernorm")
        self.linear(f"{name}.mlp.gate_up_proj", FEED_FORWARD, WIDTH, bias)
        if self.shape.gated:
            self.linear(f"{name}.mlp.up_proj", FEED_FORWARD, WIDTH, bias)
        self.linear(f"{name}.mlp.down_proj", WIDTH, FEED_FORWARD, bias)

    def attention(self, name: str) -> None:
        shape, bias = self.shape, self.shape.attention_bias
        inner, kept = shape.heads * shape.head_width, shape.key_heads * shape.head_width
        self.linear(f"{name}.linear_query", inner, WIDTH, bias)
        self.linear(f"{name}.linear_keys", kept, WIDTH, bias)
        self.linear(f"{name}.linear_values", kept, WIDTH, bias)
        self.linear(f"{name}.final_linear", WIDTH, inner, bias)

    def linear(self, name: str, rows: int, columns: int, bias: bool) -> None:
        self.state[f"{name}.weight"] = self.numbers(rows, columns, scale=1.5 / math.sqrt(columns))
        if bias:
            self.state[f"{name}.bias"] = self.numbers(rows, scale=0.3)

    def norm(self, name: str) -> None:
        self.state[f"{name}.weight"] = 1 + self.numbers(WIDTH, scale=0.3)
        if self.shape.norm == "standard":
            self.state[f"{name}.bias"] = self.numbers(WIDTH, scale=0.3)


def _positions(shape: Shape, side: str, learned: Tensor) -> dict[str, Tensor]:
    if shape.positions is None:
        return {}
    if shape.positions == "Learned":
        return {f"{side}_emb.pe.weight": learned}
    half = WIDTH // 2
    steps = half if shape.positions == "SinusoidalInterleaved" else half - 1
    angles = torch.arange(ROWS)[:, None] * torch.exp(torch.arange(half) * -(math.log(10000.0) / steps))
    table = torch.cat([angles.sin(), angles.cos()], dim=1)
    if shape.positions == "SinusoidalInterleaved":
        table = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)
    return {f"{side}_emb.pe.pe": table[:, None]}  # (rows, 1, D)


class Reference:
    """Computes one sentence at a time, without a cache."""

    def __init__(self, shape: Shape, state: Mapping[str, Tensor]) -> None:
        self.shape = shape
        self.state = state

    def logits(self, source: list[int], target: list[int]) -> Tensor:
        """Return the logits of the token after each target token (T, V)."""
        seen = self._embed("src", source)
        for number in range(LAYERS):
            seen = self._layer(f"encoder.transformer_layers.{number}", seen, None)
        seen = self._norm("encoder.layer_norm", seen)
        states = self._embed("tgt", target)
        for number in range(LAYERS):
            states = self._layer(f"decoder.transformer_layers.{number}", states, seen)
        return self._linear("generator", self._norm("decoder.layer_norm", states))

    def greedy(self, source: list[int], longest: int) -> list[int]:
        start, end = PIECES.index("<s>"), PIECES.index("</s>")
        target = [start]
        while target[-1] != end and len(target) <= longest:
            target.append(int(self.logits(source, target)[-1].argmax()))
        return target[1:]

    def _embed(self, side: str, ids: list[int]) -> Tensor:
        states = self.state[f"{side}_emb.embeddings.weight"][ids]
        if self.shape.positions == "Learned":
            first = self.shape.shift
            states = states + self.state[f"{side}_emb.pe.weight"][first : first + len(ids)]
        elif self.shape.positions:
            states = states * math.sqrt(WIDTH) + self.state[f"{side}_emb.pe.pe"][: len(ids), 0]
        return states * math.sqrt(WIDTH) if self.shape.normalize else states

    def _layer(self, name: str, states: Tensor, seen: Tensor | None) -> Tensor:
        inside = self._norm(f"{name}.input_layernorm", states)
        states = states + self._attend(f"{name}.self_attn", inside, inside, causal=seen is not None)
        if seen is not None:
            inside = self._norm(f"{name}.precontext_layernorm", states)
            states = states + self._attend(f"{name}.context_attn", inside, seen, causal=False)
        inside = self._norm(f"{name}.post_attention_layernorm", states)
        active = ACTIVATIONS[self.shape.activation](self._linear(f"{name}.mlp.gate_up_proj", inside))
        if self.shape.gated:
            active = active * self._linear(f"{name}.mlp.up_proj", inside)
        return states + self._linear(f"{name}.mlp.down_proj", active)

    def _attend(self, name: str, states: Tensor, seen: Tensor, *, causal: bool) -> Tensor:
        queries = self._linear(f"{name}.linear_query", states)
        keys, values = (self._linear(f"{name}.linear_{what}", seen) for what in ("keys", "values"))
        width = self.shape.head_width
        scale = 1 / math.sqrt(self.shape.scaling or width)
        mixed = []
        for head in range(self.shape.heads):
            kept = head * self.shape.key_heads // self.shape.heads
            query = queries[:, head * width : (head + 1) * width]
            key, value = (found[:, kept * width : (kept + 1) * width] for found in (keys, values))
            scores = query @ key.T * scale
            if causal:
                scores = scores + torch.full_like(scores, -torch.inf).triu(1)
            mixed.append(scores.softmax(dim=1) @ value)
        return self._linear(f"{name}.final_linear", torch.cat(mixed, dim=1))

    def _norm(self, name: str, states: Tensor) -> Tensor:
        weight = self.state[f"{name}.weight"]
        if self.shape.norm == "standard":
            return functional.layer_norm(states, (WIDTH,), weight, self.state[f"{name}.bias"], self.shape.epsilon)
        return states * torch.rsqrt(states.pow(2).mean(dim=-1, keepdim=True) + self.shape.epsilon) * weight

    def _linear(self, name: str, states: Tensor) -> Tensor:
        return functional.linear(states, self.state[f"{name}.weight"], self.state.get(f"{name}.bias"))


def as_onmt(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    renamed = {}
    for name, tensor in state.items():
        for pattern, new in ONMT_NAMES:
            name = re.sub(pattern, new, name)
        renamed[name] = tensor
    return renamed


def onmt_options(shape: Shape) -> dict[str, Any]:
    """Return the training options that decide what the model computes and how texts are tokenized."""
    gated = {"silu": "silu", "gelu": "gated-gelu"}
    return {
        "model_task": "seq2seq",
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "heads": shape.heads,
        "num_kv": 0 if shape.key_heads == shape.heads else shape.key_heads,
        "pos_ffn_activation_fn": gated[shape.activation] if shape.gated else shape.activation,
        "layer_norm": shape.norm,
        "norm_eps": shape.epsilon,
        "position_encoding": shape.positions is not None,
        "max_relative_positions": 0,
        "share_embeddings": shape.shared,
        "share_decoder_embeddings": shape.tied,
        "share_vocab": True,
        "transforms": ["sentencepiece"],
        "src_subword_model": "somewhere/else/pieces.model",
        "tgt_subword_model": "somewhere/else/pieces.model",
        "_all_transform": {"sentencepiece", "filtertoolong"},
    }


def onmt_content(shape: Shape, state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the content of a checkpoint file; tests change it before it is written."""
    named = as_onmt(state)
    generator = {name.removeprefix("generator."): named.pop(name) for name in list(named) if "generator" in name}
    return {
        "model": named,
        "generator": generator,
        "vocab": {
            "src": list(PIECES[: shape.source_tokens]),
            "tgt": list(PIECES),
            "data_task": "seq2seq",
            "decoder_start_token": "<s>",
        },
        "opt": argparse.Namespace(**onmt_options(shape)),
        "optim": {"training_step": 1, "optimizer": {"state": {0: {"exp_avg": torch.zeros(3)}}}},
    }


def write_onmt(folder: Path, content: Mapping[str, Any]) -> Path:
    write_pieces(folder)
    torch.save(dict(content), folder / "model_step_1.pt")
    return folder / "model_step_1.pt"


def eole_config(shape: Shape) -> dict[str, Any]:
    """Return the config as eole writes it, without defaults."""
    name = f"gated-{shape.activation}" if shape.gated else shape.activation
    side = {
        "heads": shape.heads,
        "mlp_activation_fn": name,
        "layer_norm": shape.norm,
        "norm_eps": shape.epsilon,
        "position_encoding_type": shape.positions,
    }
    side |= {"heads_kv": shape.key_heads} if shape.key_heads != shape.heads else {}
    side |= {"head_dim": shape.head_width} if shape.head_width * shape.heads != WIDTH else {}
    side |= {"attn_scaling": shape.scaling} if shape.scaling else {}
    embeddings = {
        "position_encoding_type": shape.positions,
        "normalize": shape.normalize,
        "position_shift": shape.shift,
    }
    return {
        "share_vocab": True,
        "transforms": ["sentencepiece"],
        "transforms_configs": {"sentencepiece": {"src_subword_model": "${MODEL_PATH}/pieces.model"}},
        "training": {"compute_dtype": "torch.float32"},
        "model": {
            **side,
            "architecture": "transformer",
            "share_embeddings": shape.shared,
            "share_decoder_embeddings": shape.tied,
            "embeddings": embeddings,
            "encoder": {"encoder_type": "transformer", "layers": LAYERS},
            "decoder": {"decoder_type": "transformer", "layers": LAYERS, **side},
        },
    }


def write_eole(
    folder: Path, shape: Shape, state: Mapping[str, Tensor], config: Mapping[str, Any] | None = None
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_pieces(folder)
    left_out = {"tgt_emb.embeddings.weight"} if shape.shared else set()
    left_out |= {"generator.weight"} if shape.tied else set()
    stored = {name: tensor for name, tensor in state.items() if name not in left_out}
    stored |= {f"decoder.transformer_layers.{number}.layer_scalar": torch.ones(1) for number in range(LAYERS)}
    save_file({name: tensor.contiguous() for name, tensor in stored.items()}, folder / "model.00.safetensors")
    marks = {"unk_token": "<unk>", "pad_token": "<blank>", "bos_token": "<s>", "eos_token": "</s>"}
    words = {"src": PIECES[: shape.source_tokens], "tgt": PIECES, "decoder_start_token": "<s>", "specials": marks}
    (folder / "vocab.json").write_text(json.dumps(words), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config or eole_config(shape)), encoding="utf-8")
    return folder


def write_pieces(folder: Path) -> None:
    (folder / "pieces.model").write_bytes(vocabulary()[0])
