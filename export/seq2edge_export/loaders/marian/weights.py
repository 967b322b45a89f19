"""Marian's tensors as float32, in the layout that torch has.

Integers are those of intgemm, with what they were multiplied by as a float behind them. They are stored transposed, but
for embeddings; in the formats that are prepared for one kind of processor, eight columns at a time are cut into pieces
as long as a register.

Where each tensor of Marian's Transformer goes in ours.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from seq2edge.config.architecture import Architecture
from seq2edge_export.loaders.marian.config import MarianConfig
from seq2edge_export.loaders.marian.files import Item, Items, broken
from seq2edge_export.loaders.state_dict import StateDict
from seq2edge_export.loaders.weight_map import WeightMapping
from seq2edge_export.model.transformer import Transformer

FLOATS = {0x402: "<f2", 0x404: "<f4", 0x408: "<f8"}
# type -> integers, and the bytes of a register that they are prepared for; 0x41.. is Bergamot's Marian
INTEGERS = {
    0x4101: ("<i1", 0),
    0x4102: ("<i2", 0),
    0x10001: ("<i1", 0),
    0x10002: ("<i2", 0),
    0x18001: ("<i1", 16),  # SSSE3
    0x11001: ("<i1", 32),  # AVX2
    0x12001: ("<i1", 64),  # AVX512
    0x13001: ("<i1", 64),  # AVX512 with VNNI
    0x14002: ("<i2", 16),  # SSE2
    0x11002: ("<i2", 32),
    0x12002: ("<i2", 64),
}
PACKED = {0x802: "packed16", 0x1801: "packed8avx2", 0x2801: "packed8avx512"}
COLUMNS = 8  # that are cut together
# how activations are rounded, and texts: no weights
OTHERS = ("_QuantMultA", "_QuantMultB")
SPECIAL = "special:"
EMBEDDING_SUFFIX, OUTPUT_SUFFIX = "Wemb", "_Wt"  # one row a token, as in torch

Array = NDArray[Any]


def is_weight(name: str) -> bool:
    return not name.startswith(SPECIAL) and not name.endswith(OTHERS)


def unreadable(items: Items) -> list[str]:
    """The kinds of weights that cannot be read, each once."""
    kinds = {item.type for name, item in items.items() if is_weight(name)} - FLOATS.keys() - INTEGERS.keys()
    packed = [f"weights that FBGEMM has packed ({PACKED[kind]})" for kind in sorted(kinds & PACKED.keys())]
    return packed + [f"weights of the type {kind:#x}" for kind in sorted(kinds - PACKED.keys())]


def widen(path: Path, items: Items) -> StateDict:
    """Every weight as torch would have it: vectors with one axis, linear layers with one row an output."""
    return {name: torch.from_numpy(_laid_out(path, name, item)) for name, item in items.items() if is_weight(name)}


def _laid_out(path: Path, name: str, item: Item) -> Array:
    numbers = _floats(path, name, item) if item.type in FLOATS else _widened_integers(path, name, item)
    if numbers.shape[0] == 1 and numbers.ndim == 2:
        numbers = numbers[0]
    elif numbers.ndim == 2 and not name.endswith((EMBEDDING_SUFFIX, OUTPUT_SUFFIX)):
        numbers = numbers.T
    with np.errstate(all="ignore"):  # what is then infinite is refused with its name
        return np.array(numbers, np.float32, order="C")  # a copy, as the file is mapped


def _floats(path: Path, name: str, item: Item) -> Array:
    dtype = np.dtype(FLOATS[item.type])
    return _taken(path, name, item, dtype, 0).view(dtype).reshape(item.shape)


def _widened_integers(path: Path, name: str, item: Item) -> Array:
    kind, register = INTEGERS[item.type]
    dtype = np.dtype(kind)
    content = _taken(path, name, item, dtype, 4)
    integers, scale = content[:-4].view(dtype), content[-4:].copy().view("<f4")[0]
    if len(item.shape) != 2 or not np.isfinite(scale) or scale <= 0:
        raise broken(path, f"{name!r} holds integers with the shape {item.shape} and the scale {scale}")
    with np.errstate(all="ignore"):
        return _matrix(path, name, integers, item.shape, register // dtype.itemsize) * (np.float32(1) / scale)


def _matrix(path: Path, name: str, integers: Array, shape: tuple[int, ...], length: int) -> Array:
    """The matrix itself, as float32 (rows, columns)."""
    rows, columns = shape
    wide = integers.astype(np.float32)
    if EMBEDDING_SUFFIX in name:
        return wide.reshape(rows, columns)
    if not length:
        return wide.reshape(columns, rows).T
    if rows % length or columns % COLUMNS:
        raise broken(path, f"{name!r} has the shape {shape}, which pieces of {length} by {COLUMNS} do not fill")
    pieces = wide.reshape(columns // COLUMNS, rows // length, COLUMNS, length)
    return pieces.transpose(1, 3, 0, 2).reshape(rows, columns)


def _taken(path: Path, name: str, item: Item, dtype: np.dtype[Any], more: int) -> Array:
    """The bytes that the shape takes, and some more; a file may fill up what follows."""
    size = dtype.itemsize * int(np.prod(item.shape, dtype=object)) + more
    if len(item.content) < size:
        raise broken(path, f"{name!r} has {len(item.content):,} bytes, but its shape {item.shape} takes {size:,}")
    return np.asarray(item.content[:size])


OUTPUT, LEGACY_OUTPUT, OUTPUT_BIAS = "decoder_ff_logit_out_Wt", "decoder_ff_logit_out_W", "decoder_ff_logit_out_b"
TRAINED_POSITIONS = "Wpos"

# what stands behind the name of a layer -> linear layers of ours
SELF = {"self_{}q": "attention.query", "self_{}k": "attention.key", "self_{}v": "attention.value"}
CROSS = {"context_{}q": "cross.query", "context_{}k": "cross.key", "context_{}v": "cross.value"}
SELF_OUTPUT, CROSS_OUTPUT = {"self_{}o": "attention.output"}, {"context_{}o": "cross.output"}
FEED_FORWARD = {"ffn_{}1": "feed_forward.inner", "ffn_{}2": "feed_forward.output"}
CELL = {"rnn_{}f": "cell.gate"}
CELL_INPUT = "rnn_W"  # without bias
# the same for norms; Marian calls the norm of an attention after its last linear layer
SELF_NORM, CROSS_NORM = {"self_Wo": "attention_residual.norm"}, {"context_Wo": "cross_residual.norm"}
FEED_FORWARD_NORM = {"ffn_ffn": "feed_forward_residual.norm"}


def weight_map(config: MarianConfig, shape: Architecture, state: StateDict) -> list[WeightMapping]:
    """A place for every parameter of ours."""
    found = [WeightMapping(config.target_embedding, ("target_embedding.tokens.weight",))]
    if not shape.joint_vocabulary:
        found.append(WeightMapping(config.source_embedding, ("source_embedding.tokens.weight",)))
    if not shape.tied_output:
        found.append(WeightMapping(LEGACY_OUTPUT if LEGACY_OUTPUT in state else OUTPUT, ("output.weight",)))
    if shape.output_bias:
        found.append(WeightMapping(OUTPUT_BIAS, ("output.bias",)))
    for number in range(shape.encoder_layers):
        layer = _Layer(f"encoder_l{number + 1}_", f"encoder.{number}.", config)
        found += [*layer.linears(SELF | SELF_OUTPUT | FEED_FORWARD), *layer.norms(SELF_NORM | FEED_FORWARD_NORM)]
    for number, theirs in enumerate(config.decoder_layers):
        layer = _Layer(f"decoder_l{theirs}_", f"decoder.{number}.", config)
        found += [*layer.linears(CROSS | CROSS_OUTPUT | FEED_FORWARD), *layer.norms(CROSS_NORM | FEED_FORWARD_NORM)]
        found += layer.cell() if shape.decoder_cell == "ssru" else layer.self_attention()
    for side, embedding in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
        stack = _Layer(f"{side}_", "", config)
        if shape.final_norm:
            found += stack.norm("top", f"{side}_norm", "")
        if shape.embedding_norm:
            found += stack.norm("emb", f"{embedding}.norm", "_pre")
    return found


class _Layer:
    """The places within one layer."""

    def __init__(self, theirs: str, ours: str, config: MarianConfig) -> None:
        self.theirs, self.ours, self.config = theirs, ours, config

    def linears(self, modules: dict[str, str]) -> Iterator[WeightMapping]:
        for name, module in modules.items():
            for letter, kind in (("W", "weight"), ("b", "bias")):
                yield WeightMapping(self.theirs + name.format(letter), (f"{self.ours}{module}.{kind}",))

    def norms(self, modules: dict[str, str]) -> Iterator[WeightMapping]:
        for name, module in modules.items():
            yield from self.norm(name, self.ours + module, "_pre" if self.config.norm_first else "")

    def norm(self, name: str, module: str, suffix: str) -> Iterator[WeightMapping]:
        if self.config.norm == "rms":
            yield WeightMapping(f"{self.theirs}{name}_rms_scale{suffix}", (f"{module}.weight",))
            return
        for kind, ours in (("scale", "weight"), ("bias", "bias")):
            yield WeightMapping(f"{self.theirs}{name}_ln_{kind}{suffix}", (f"{module}.{ours}",))

    def self_attention(self) -> Iterator[WeightMapping]:
        yield from self.linears(SELF | SELF_OUTPUT)
        yield from self.norms(SELF_NORM)

    def cell(self) -> Iterator[WeightMapping]:
        yield from self.linears(CELL)
        yield WeightMapping(self.theirs + CELL_INPUT, (f"{self.ours}cell.input.weight",))
        norm = "rnn" if self.config.norm_first else "rnn_ffn"
        yield from self.norms({norm: "attention_residual.norm"})


def left_out(config: MarianConfig, found: list[WeightMapping], state: StateDict) -> list[WeightMapping]:
    """Those whose tensor may be missing: the settings say that Marian does without."""
    return [place for place in found if place.theirs not in state and _is_optional(config, place.ours[0])]


def fill_neutral(model: Transformer, found: list[WeightMapping]) -> None:
    """Projections that give what they get, biases of zero, norms that only norm."""
    for place in found:
        parameter = model.get_parameter(place.ours[0])
        if parameter.dim() == 2:
            nn.init.eye_(parameter)
        else:
            nn.init.constant_(parameter, 1.0 if place.ours[0].endswith("weight") else 0.0)


def _is_optional(config: MarianConfig, ours: str) -> bool:
    if ".norm." in ours or ours == "output.bias":
        return ".norm." in ours and not config.affine
    is_projection = ours.endswith((".output.weight", ".output.bias")) and "feed_forward" not in ours
    return (is_projection and not config.projected) or (ours.endswith("bias") and not config.bias)
