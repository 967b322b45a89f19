"""Convert Marian's tensors to float32 in the layout of torch, and map them to the Transformer.

Integer weights are those of intgemm, followed by their scale as a float. They are stored transposed, except for
embeddings. The formats that are prepared for one instruction set store eight columns at a time, cut into runs of the
length of a register.
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
# type -> dtype, and the bytes of the register it is prepared for; 0x41.. is Bergamot's Marian
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
COLUMNS = 8  # stored together in prepared formats
# scales of activations, and texts
NOT_WEIGHTS = ("_QuantMultA", "_QuantMultB")
SPECIAL = "special:"
EMBEDDING_SUFFIX, OUTPUT_SUFFIX = "Wemb", "_Wt"  # one row per token, as in torch
OUTPUT, LEGACY_OUTPUT, OUTPUT_BIAS = "decoder_ff_logit_out_Wt", "decoder_ff_logit_out_W", "decoder_ff_logit_out_b"
TRAINED_POSITIONS = "Wpos"
Array = NDArray[Any]

# suffix after the name of a layer -> our linear layer
SELF = {"self_{}q": "attention.query", "self_{}k": "attention.key", "self_{}v": "attention.value"}
CROSS = {"context_{}q": "cross.query", "context_{}k": "cross.key", "context_{}v": "cross.value"}
SELF_OUTPUT, CROSS_OUTPUT = {"self_{}o": "attention.output"}, {"context_{}o": "cross.output"}
FEED_FORWARD = {"ffn_{}1": "feed_forward.inner", "ffn_{}2": "feed_forward.output"}
CELL = {"rnn_{}f": "cell.gate"}
CELL_INPUT = "rnn_W"  # without bias
# the same for norms; Marian names the norm of an attention after its output projection
SELF_NORM, CROSS_NORM = {"self_Wo": "attention_residual.norm"}, {"context_Wo": "cross_residual.norm"}
FEED_FORWARD_NORM = {"ffn_ffn": "feed_forward_residual.norm"}


def weight_map(config: MarianConfig, architecture: Architecture, state: StateDict) -> list[WeightMapping]:
    """Map every parameter."""
    mappings = [WeightMapping(config.target_embedding, ("target_embedding.tokens.weight",))]
    if not architecture.joint_vocabulary:
        mappings.append(WeightMapping(config.source_embedding, ("source_embedding.tokens.weight",)))
    if not architecture.tied_output:
        mappings.append(WeightMapping(LEGACY_OUTPUT if LEGACY_OUTPUT in state else OUTPUT, ("output.weight",)))
    if architecture.output_bias:
        mappings.append(WeightMapping(OUTPUT_BIAS, ("output.bias",)))
    for number in range(architecture.encoder_layers):
        layer = _Layer(f"encoder_l{number + 1}_", f"encoder.{number}.", config)
        mappings += [*layer.linears(SELF | SELF_OUTPUT | FEED_FORWARD), *layer.norms(SELF_NORM | FEED_FORWARD_NORM)]
    for number, theirs in enumerate(config.decoder_layers):
        layer = _Layer(f"decoder_l{theirs}_", f"decoder.{number}.", config)
        mappings += [*layer.linears(CROSS | CROSS_OUTPUT | FEED_FORWARD), *layer.norms(CROSS_NORM | FEED_FORWARD_NORM)]
        mappings += layer.cell() if architecture.decoder_cell == "ssru" else layer.self_attention()
    for side, embedding in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
        stack = _Layer(f"{side}_", "", config)
        if architecture.final_norm:
            mappings += stack.norm("top", f"{side}_norm", "")
        if architecture.embedding_norm:
            mappings += stack.norm("emb", f"{embedding}.norm", "_pre")
    return mappings


class _Layer:
    """The mappings of one layer."""

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


def omitted_mappings(config: MarianConfig, mappings: list[WeightMapping], state: StateDict) -> list[WeightMapping]:
    """Return the mappings whose tensor is missing because the settings switch it off."""
    return [mapping for mapping in mappings if mapping.theirs not in state and _is_optional(config, mapping.ours[0])]


def fill_neutral(model: Transformer, omitted: list[WeightMapping]) -> None:
    """Fill omitted parameters with values that have no effect: identity projections, zero biases, unit scales."""
    for mapping in omitted:
        parameter = model.get_parameter(mapping.ours[0])
        if parameter.dim() == 2:
            nn.init.eye_(parameter)
        else:
            nn.init.constant_(parameter, 1.0 if mapping.ours[0].endswith("weight") else 0.0)


def _is_optional(config: MarianConfig, ours: str) -> bool:
    if ".norm." in ours or ours == "output.bias":
        return ".norm." in ours and not config.affine
    is_projection = ours.endswith((".output.weight", ".output.bias")) and "feed_forward" not in ours
    return (is_projection and not config.projected) or (ours.endswith("bias") and not config.bias)


def _is_weight(name: str) -> bool:
    return not name.startswith(SPECIAL) and not name.endswith(NOT_WEIGHTS)


def unsupported_weights(items: Items) -> list[str]:
    """List the types of weights that cannot be read, and trained positions."""
    types = {item.type for name, item in items.items() if _is_weight(name)} - FLOATS.keys() - INTEGERS.keys()
    problems = [f"weights packed by FBGEMM ({PACKED[number]})" for number in sorted(types & PACKED.keys())]
    problems += [f"weights of the type {number:#x}" for number in sorted(types - PACKED.keys())]
    if TRAINED_POSITIONS in items:
        problems.append("trained positions (Wpos), which Marian's search does not count")
    return problems


def to_float32(path: Path, items: Items) -> StateDict:
    """Convert every weight to the layout of torch: vectors with one axis, linear layers with one row per output."""
    return {name: torch.from_numpy(_convert(path, name, item)) for name, item in items.items() if _is_weight(name)}


def _convert(path: Path, name: str, item: Item) -> Array:
    values = _floats(path, name, item) if item.type in FLOATS else _dequantized(path, name, item)
    if values.shape[0] == 1 and values.ndim == 2:
        values = values[0]
    elif values.ndim == 2 and not name.endswith((EMBEDDING_SUFFIX, OUTPUT_SUFFIX)):
        values = values.T
    with np.errstate(all="ignore"):  # infinite values are refused later, with the name of the tensor
        return np.array(values, np.float32, order="C")  # a copy, since the file is mapped


def _floats(path: Path, name: str, item: Item) -> Array:
    dtype = np.dtype(FLOATS[item.type])
    return _content(path, name, item, dtype, 0).view(dtype).reshape(item.shape)


def _dequantized(path: Path, name: str, item: Item) -> Array:
    dtype_name, register = INTEGERS[item.type]
    dtype = np.dtype(dtype_name)
    content = _content(path, name, item, dtype, 4)
    integers, scale = content[:-4].view(dtype), content[-4:].copy().view("<f4")[0]
    if len(item.shape) != 2 or not np.isfinite(scale) or scale <= 0:
        raise broken(path, f"{name!r} has integers of shape {item.shape} with the scale {scale}")
    with np.errstate(all="ignore"):
        return _matrix(path, name, integers, item.shape, register // dtype.itemsize) * (np.float32(1) / scale)


def _matrix(path: Path, name: str, integers: Array, shape: tuple[int, ...], length: int) -> Array:
    """Return integers as a float32 matrix (rows, columns); ``length`` is that of a run in prepared formats, else 0."""
    rows, columns = shape
    values = integers.astype(np.float32)
    if EMBEDDING_SUFFIX in name:
        return values.reshape(rows, columns)
    if not length:
        return values.reshape(columns, rows).T
    if rows % length or columns % COLUMNS:
        raise broken(path, f"{name!r} has shape {shape}, which is not a multiple of {length} by {COLUMNS}")
    runs = values.reshape(columns // COLUMNS, rows // length, COLUMNS, length)
    return runs.transpose(1, 3, 0, 2).reshape(rows, columns)


def _content(path: Path, name: str, item: Item, dtype: np.dtype[Any], extra: int) -> Array:
    """Return the bytes that the shape needs plus ``extra``, without the padding that may follow."""
    size = dtype.itemsize * int(np.prod(item.shape, dtype=object)) + extra
    if len(item.content) < size:
        raise broken(path, f"{name!r} has {len(item.content):,} bytes, but its shape {item.shape} needs {size:,}")
    return np.asarray(item.content[:size])
