"""Write checkpoints in fairseq's format without fairseq, and compute its transformer independently."""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

WIDTH, HEADS, INNER, POSITIONS = 16, 4, 24, 60
PAD, EOS = 1, 2
CODES = "#version: 0.2\nt h\nth e</w>\na n</w>\ns e\nse e</w>\nr e\nh o\nho u\ns e</w>\n"
SOURCE_TOKENS = [
    "the",
    "ol@@",
    "d",
    "ma@@",
    "n",
    "se@@",
    "es",
    "a",
    "ho@@",
    "u@@",
    "se",
    "re@@",
    ".",
    "d@@",
    ",",
    "o@@",
    "l@@",
    "m@@",
    "an@@",
    "e",
    "s@@",
    "h@@",
    "r@@",
    "t@@",
    "see",
]
TARGET_TOKENS = [
    "der",
    "al@@",
    "te",
    "Ma@@",
    "nn",
    "sie@@",
    "ht",
    "ein",
    "Ha@@",
    "us",
    "ro@@",
    "tes",
    ".",
    ",",
    "und",
    "madeupword0000",
]
TEXTS = ["the old man sees a house .", "a man", "the red house , the old man .", "see the house the man sees ."]
BASE = {
    "arch": "transformer",
    "task": "translation",
    "source_lang": "en",
    "target_lang": "de",
    "data": "data-bin/tiny",
    "bpe": None,
    "tokenizer": None,
    "encoder_embed_dim": WIDTH,
    "encoder_ffn_embed_dim": INNER,
    "encoder_layers": 2,
    "encoder_attention_heads": HEADS,
    "encoder_normalize_before": True,
    "encoder_learned_pos": False,
    "decoder_embed_dim": WIDTH,
    "decoder_ffn_embed_dim": INNER,
    "decoder_layers": 1,
    "decoder_attention_heads": HEADS,
    "decoder_normalize_before": True,
    "decoder_learned_pos": False,
    "decoder_input_dim": WIDTH,
    "decoder_output_dim": WIDTH,
    "activation_fn": "relu",
    "share_decoder_input_output_embed": False,
    "share_all_embeddings": False,
    "no_token_positional_embeddings": False,
    "no_scale_embedding": False,
    "layernorm_embedding": False,
    "adaptive_softmax_cutoff": None,
    "max_source_positions": POSITIONS,
    "max_target_positions": POSITIONS,
}
POST_NORM = {"encoder_normalize_before": False, "decoder_normalize_before": False}
JOINT = {"share_all_embeddings": True, "share_decoder_input_output_embed": True}
VARIANTS: dict[str, dict[str, Any]] = {
    "norms before": {},
    "norms behind": POST_NORM,
    "learned positions": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "learned in the decoder alone": {"decoder_learned_pos": True, **POST_NORM},
    "no positions": {"no_token_positional_embeddings": True},
    "tied output": {"share_decoder_input_output_embed": True},
    "one embedding": JOINT,
    "norm behind embeddings": {"layernorm_embedding": True, "no_scale_embedding": True},
    "gelu": {"activation_fn": "gelu", "decoder_layers": 3},
    "gelu_accurate": {"activation_fn": "gelu_accurate", **POST_NORM},
}
State = dict[str, Tensor]


def settings_of(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    return {**BASE, **(changes or {})}


def seeded_state(settings: dict[str, Any], seed: int = 1) -> State:
    """Return random tensors with the names and the order of fairseq."""
    random = torch.Generator().manual_seed(seed)

    def table(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random) * (0.6 if len(shape) == 2 else 0.2)

    def linear(name: str, rows: int, columns: int) -> State:
        return {f"{name}.weight": table(rows, columns), f"{name}.bias": table(rows)}

    def norm(name: str) -> State:
        return {f"{name}.weight": 1 + table(WIDTH), f"{name}.bias": table(WIDTH)}

    state: State = {}
    for side, tokens in (("encoder", SOURCE_TOKENS), ("decoder", TARGET_TOKENS)):
        state[f"{side}.version"] = torch.tensor([3.0])
        joint = settings["share_all_embeddings"] and side == "decoder"
        size = 4 + len(SOURCE_TOKENS if joint else tokens)
        embedding = f"{side}.embed_tokens.weight"
        state[embedding] = state["encoder.embed_tokens.weight"] if joint else table(size, WIDTH)
        if not settings["no_token_positional_embeddings"]:
            if settings[f"{side}_learned_pos"]:
                state[f"{side}.embed_positions.weight"] = table(POSITIONS + PAD + 1, WIDTH)
            else:
                state[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
        if settings["layernorm_embedding"]:
            state |= norm(f"{side}.layernorm_embedding")
        for layer in range(settings[f"{side}_layers"]):
            name = f"{side}.layers.{layer}"
            for attention in ("self_attn", "encoder_attn") if side == "decoder" else ("self_attn",):
                for part in "kvq":
                    state |= linear(f"{name}.{attention}.{part}_proj", WIDTH, WIDTH)
                state |= linear(f"{name}.{attention}.out_proj", WIDTH, WIDTH) | norm(f"{name}.{attention}_layer_norm")
            state |= linear(f"{name}.fc1", INNER, WIDTH) | linear(f"{name}.fc2", WIDTH, INNER)
            state |= norm(f"{name}.final_layer_norm")
        if settings[f"{side}_normalize_before"]:
            state |= norm(f"{side}.layer_norm")
    shared = settings["share_decoder_input_output_embed"]
    target = state["decoder.embed_tokens.weight"]
    state["decoder.output_projection.weight"] = target if shared else table(len(target), WIDTH)
    return state


class Reference:
    """The formulas of fairseq's transformer in double precision, one sentence at a time, without a cache."""

    def __init__(self, state: State, settings: dict[str, Any]) -> None:
        self.state = {name: tensor.double() for name, tensor in state.items()}
        self.settings = settings

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Tensor:
        """Return the logits of each next token (T, V)."""
        memory = self._stack("encoder", source, None)
        return self._stack("decoder", target, memory) @ self.state["decoder.output_projection.weight"].T

    def greedy(self, source: Sequence[int], longest: int) -> list[int]:
        """Return the most likely tokens, at least one and at most ``longest``."""
        tokens = [EOS]
        while len(tokens) <= longest and (len(tokens) == 1 or tokens[-1] != EOS):
            scores = self.logits(source, tokens)[-1]
            scores[PAD] = -torch.inf
            if len(tokens) == 1:
                scores[EOS] = -torch.inf
            tokens.append(int(scores.argmax()))
        return tokens[1:]

    def _stack(self, side: str, ids: Sequence[int], memory: Tensor | None) -> Tensor:
        before = self.settings[f"{side}_normalize_before"]
        states = self._embedded(side, ids)
        future = torch.ones(len(ids), len(ids), dtype=torch.bool).triu(1) if side == "decoder" else None
        for layer in range(self.settings[f"{side}_layers"]):
            name = f"{side}.layers.{layer}"
            sublayers: list[tuple[str, Any]] = [
                ("self_attn_layer_norm", lambda x, n=name: self._attention(f"{n}.self_attn", x, x, future))
            ]
            if memory is not None:
                sublayers.append(
                    ("encoder_attn_layer_norm", lambda x, n=name: self._attention(f"{n}.encoder_attn", x, memory, None))
                )
            sublayers.append(("final_layer_norm", lambda x, n=name: self._feed_forward(n, x)))
            for norm, sublayer in sublayers:
                inside = self._norm(f"{name}.{norm}", states) if before else states
                states = states + sublayer(inside)
                states = states if before else self._norm(f"{name}.{norm}", states)
        return self._norm(f"{side}.layer_norm", states) if f"{side}.layer_norm.weight" in self.state else states

    def _embedded(self, side: str, ids: Sequence[int]) -> Tensor:
        scale = 1.0 if self.settings["no_scale_embedding"] else math.sqrt(WIDTH)
        states = scale * self.state[f"{side}.embed_tokens.weight"][list(ids)]
        positions = [PAD + 1 + index for index in range(len(ids))]  # there is no padding
        if not self.settings["no_token_positional_embeddings"]:
            learned = self.state.get(f"{side}.embed_positions.weight")
            states = states + (
                torch.stack([self._sinusoid(position) for position in positions])
                if learned is None
                else learned[positions]
            )
        return self._norm(f"{side}.layernorm_embedding", states) if self.settings["layernorm_embedding"] else states

    @staticmethod
    def _sinusoid(position: int) -> Tensor:
        """Compute a row of the position table in float32, as fairseq does."""
        half = WIDTH // 2
        frequencies = torch.exp(torch.arange(half, dtype=torch.float32) * -(math.log(10000) / (half - 1)))
        angles = torch.tensor(float(position)) * frequencies
        return torch.cat([torch.sin(angles), torch.cos(angles)]).double()

    def _attention(self, name: str, states: Tensor, seen: Tensor, hidden: Tensor | None) -> Tensor:
        width = WIDTH // HEADS
        queries, keys, values = (
            self._linear(f"{name}.{part}_proj", what).unflatten(1, (HEADS, width)).transpose(0, 1)  # (H, T, d)
            for part, what in (("q", states), ("k", seen), ("v", seen))
        )
        scores = queries * width**-0.5 @ keys.transpose(1, 2)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        mixed = (scores.softmax(dim=-1) @ values).transpose(0, 1).flatten(1)
        return self._linear(f"{name}.out_proj", mixed)

    def _feed_forward(self, name: str, states: Tensor) -> Tensor:
        inner = self._linear(f"{name}.fc1", states)
        kind = self.settings["activation_fn"]
        if kind == "relu":
            inner = inner.clamp(min=0)
        elif kind == "gelu":
            inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
        else:
            inner = 0.5 * inner * (1 + torch.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))
        return self._linear(f"{name}.fc2", inner)

    def _linear(self, name: str, states: Tensor) -> Tensor:
        return states @ self.state[f"{name}.weight"].T + self.state[f"{name}.bias"]

    def _norm(self, name: str, states: Tensor) -> Tensor:
        return functional.layer_norm(states, (WIDTH,), self.state[f"{name}.weight"], self.state[f"{name}.bias"], 1e-5)


def write_folder(folder: Path, settings: dict[str, Any], state: State | None = None, **content: Any) -> Path:
    """Write a folder with a checkpoint, its dictionaries and codes; ``content`` is added to the checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    save(folder / "model.pt", {"args": argparse.Namespace(**settings), "cfg": None, **content}, settings, state)
    target = SOURCE_TOKENS if settings["share_all_embeddings"] else TARGET_TOKENS
    for language, tokens in (("en", SOURCE_TOKENS), ("de", target)):
        write_dictionary(folder / f"dict.{language}.txt", tokens)
    (folder / "bpecodes").write_text(CODES, encoding="utf-8")
    return folder


def save(path: Path, content: dict[str, Any], settings: dict[str, Any], state: State | None = None) -> None:
    history = {"optimizer_name": "FairseqAdam", "lr_scheduler_state": {"best": 1.5}, "num_updates": 3}
    extra = {"train_iterator": {"epoch": 1}, "val_loss": 1.5}
    training = {"optimizer_history": [history], "extra_state": extra, "task_state": {}}
    torch.save({**content, "model": seeded_state(settings) if state is None else state, **training}, path)


def write_dictionary(path: Path, tokens: Sequence[str]) -> None:
    lines = [f"{token} {100 - index}" for index, token in enumerate(tokens)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def as_cfg(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings in the sections of newer versions."""
    task = {name: settings[name] for name in ("data", "source_lang", "target_lang")}
    return {
        "_name": None,
        "model": argparse.Namespace(**settings),
        "task": {"_name": "translation", **task},
        "bpe": None,
        "tokenizer": None,
        "generation": {"beam": 3, "lenpen": 0.5, "max_len_a": 0.0, "max_len_b": 20, "min_len": 1, "temperature": 1.0},
    }


def as_omegaconf(settings: dict[str, Any]) -> Any:
    """Return the settings as objects of omegaconf, nested as in fairseq's dataclasses."""
    nested = {
        side: {name.removeprefix(f"{side}_"): value for name, value in settings.items() if name.startswith(side)}
        for side in ("encoder", "decoder")
    }
    rest = {name: value for name, value in settings.items() if not name.startswith(("encoder", "decoder", "arch"))}
    nested["decoder"] |= {"input_dim": "${model.decoder.embed_dim}", "output_dim": "${model.decoder.embed_dim}"}
    return _config({**as_cfg(settings), "model": {"_name": "transformer", **rest, **nested}, "interactive": "???"})


def _config(value: Any) -> Any:
    if isinstance(value, dict):
        return _made("omegaconf.dictconfig", "DictConfig", _content={key: _config(item) for key, item in value.items()})
    if isinstance(value, list):
        return _made("omegaconf.listconfig", "ListConfig", _content=[_config(item) for item in value])
    return _made("omegaconf.nodes", "AnyNode", _val=value)


CLASSES: dict[tuple[str, str], type] = {}


def _made(module: str, name: str, **state: Any) -> Any:
    """Return an object that is pickled under the name of a class of another package."""
    kind = CLASSES.setdefault((module, name), type(name, (), {"__module__": module}))
    made = kind()
    made.__dict__.update({"_metadata": None, "_parent": None, **state})
    return made


@contextmanager
def pretended_modules() -> Iterator[None]:
    """Let pickle find classes of packages that are not installed."""
    made = {}
    for (module, name), kind in CLASSES.items():
        setattr(made.setdefault(module, ModuleType(module)), name, kind)
    parents = {module.split(".")[0] for module in made}
    added = {name: made.get(name, ModuleType(name)) for name in (*parents, *made) if name not in sys.modules}
    sys.modules.update(added)
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]
