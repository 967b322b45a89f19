"""Write tiny models in CTranslate2's format, independently of the reader."""

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sentencepiece import SentencePieceProcessor
from tiny_checkpoint import SENTENCES, random_model

from seq2edge.config.architecture import Architecture
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.training.config import TokenizerSettings
from seq2edge_export.training.data import Pairs
from seq2edge_export.training.tokenizer import train_tokenizer

Quantization = Literal["float32", "float16", "bfloat16", "int16", "int8", "int8_float16"]
TYPES = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4, "bfloat16": 5}
ACTIVATIONS = {"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3, "gelu_sigmoid": 4}
CONFIG = {
    "add_source_bos": False,
    "add_source_eos": True,
    "bos_token": "<s>",
    "decoder_start_token": "<s>",
    "eos_token": "</s>",
    "layer_norm_epsilon": None,
    "unk_token": "<unk>",
}


@dataclass
class Bfloat16:
    """bfloat16 values, the upper halves of float32, which numpy has no dtype for."""

    halves: Any


@dataclass
class Written:
    """The content of a model file; tests change it before it is written."""

    variables: dict[str, Any]
    aliases: dict[str, str] = field(default_factory=dict)
    version: int = 6
    spec: str = "TransformerSpec"
    revision: int = 7

    def content(self) -> bytes:
        parts = [struct.pack("<I", self.version), _text(self.spec), struct.pack("<I", self.revision)]
        parts.append(struct.pack("<I", len(self.variables)))
        parts += [_variable(name, value, self.version) for name, value in sorted(self.variables.items())]
        if self.version >= 3:
            parts.append(struct.pack("<I", len(self.aliases)))
            parts += [_text(alias) + _text(name) for alias, name in sorted(self.aliases.items())]
        return b"".join(parts)


@cache
def vocabulary() -> tuple[bytes, tuple[str, ...]]:
    """Return a SentencePiece model, and a vocabulary with its pieces in another order."""
    pairs = Pairs(Path("none"), SENTENCES, [text[::-1] for text in SENTENCES])
    (model,) = train_tokenizer([pairs], TokenizerSettings(vocabulary=320, joint_vocabulary=True), seed=1).values()
    processor = SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(number) for number in range(4, processor.get_piece_size())]
    return model, ("</s>", "<unk>", *reversed(pieces))


def opus_like() -> Architecture:
    """Return the architecture of OPUS-MT: post-norm, SiLU, tied embeddings, zero start."""
    return Architecture(
        source_vocabulary=len(vocabulary()[1]),
        target_vocabulary=len(vocabulary()[1]),
        width=32,
        heads=4,
        encoder_layers=2,
        decoder_layers=2,
        feed_forward=48,
        activation="silu",
        norm_first=False,
        final_norm=False,
        positions="sinusoidal_halves",
        max_positions=64,
        output_bias=True,
        zero_start=True,
    )


def variants() -> dict[str, Architecture]:
    """Return architectures that together have every option of the format."""
    opus = opus_like()
    pre = replace(opus, norm_first=True, final_norm=True, zero_start=False, activation="relu", positions="sinusoidal")
    return {
        "opus": opus,
        "pre-norm": pre,
        "gated": replace(pre, gated=True, activation="gelu", embedding_scale=1.0),
        "no final norm": replace(pre, final_norm=False, activation="gelu_tanh", output_bias=False),
        "untied": replace(opus, tied_output=False, positions="learned", activation="gelu_sigmoid"),
        "separate": replace(
            pre, joint_vocabulary=False, source_vocabulary=330, positions="learned", embedding_scale=3.0
        ),
        "embedding norm": replace(opus, embedding_norm=True, zero_start=False, norm_epsilon=1e-3),
        "one and three layers": replace(opus, encoder_layers=1, decoder_layers=3),
    }


def seeded(architecture: Architecture, seed: int = 5) -> Transformer:
    """Return a model with random weights; the end token, which is the first, is likely enough to occur."""
    model = random_model(architecture, seed)
    with torch.no_grad():
        model.output.weight[0].mul_(3)
        model.output.weight[3].div_(3)  # the end token of random_model
        if architecture.norm_first and not architecture.final_norm:
            model.output.weight.div_(100)  # without a final norm, logits would be in the thousands
    return model


def written(model: Transformer, quantization: Quantization = "float32") -> Written:
    """Return the variables of a model; tied ones are aliases."""
    architecture, aliases = model.architecture, {}
    found: dict[str, Any] = {
        "encoder/embeddings_merge": np.int8(0),
        "decoder/alignment_layer": np.int16(-1),
        "decoder/alignment_heads": np.int16(1),
        "decoder/start_from_zero_embedding": np.int8(architecture.zero_start),
        "decoder/alibi": np.int8(0),
        "decoder/embeddings/weight": model.target_embedding.tokens.weight,
    }
    if architecture.joint_vocabulary:
        aliases["encoder/embeddings_0/weight"] = "decoder/embeddings/weight"
    else:
        found["encoder/embeddings_0/weight"] = model.source_embedding.tokens.weight
    if architecture.tied_output:
        aliases["decoder/projection/weight"] = "decoder/embeddings/weight"
    else:
        found["decoder/projection/weight"] = model.output.weight
    if architecture.output_bias:
        found["decoder/projection/bias"] = model.output.bias
    for side in ("encoder", "decoder"):
        found |= _stack(side, model)
    return Written(_quantized(found, quantization), aliases)


def write_folder(
    folder: Path, content: Written, config: Mapping[str, Any] | None = None, *, tokens: Mapping[str, Any] | None = None
) -> Path:
    """Write a model folder with everything that an export needs."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces, joint = vocabulary()
    (folder / "model.bin").write_bytes(content.content())
    (folder / "config.json").write_text(json.dumps(CONFIG | dict(config or {})), encoding="utf-8")
    (folder / "sentencepiece.model").write_bytes(pieces)
    for name, listed in (tokens or {"shared_vocabulary.json": joint}).items():
        text = json.dumps(listed) if name.endswith(".json") else "\n".join(listed) + "\n"
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def write_without_tokenizer(
    folder: Path,
    source: Sequence[str],
    target: Sequence[str] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    rows: int | None = None,
) -> Path:
    """Write a seeded model with these vocabularies alone; it has a row more for an unknown token that they lack."""
    target = source if target is None else target
    sizes = [rows or len(tokens) + ("<unk>" not in tokens) for tokens in (source, target)]
    shape = replace(
        opus_like(),
        source_vocabulary=sizes[0],
        target_vocabulary=sizes[1],
        joint_vocabulary=False,
        tied_output=False,
        zero_start=False,
    )
    model = random_model(shape, 5)
    with torch.no_grad():
        model.output.weight[3].div_(3)  # the end token of random_model
        model.output.weight[target.index("</s>")].mul_(1.5)
    lists = {"source_vocabulary.txt": source, "target_vocabulary.txt": target}
    write_folder(folder, written(model), {"add_source_eos": False, **(config or {})}, tokens=lists)
    (folder / "sentencepiece.model").unlink()
    return folder


def rounded(model: Transformer, quantization: Quantization) -> Transformer:
    """Round the weights of a model in place, as quantization does."""
    together: dict[str, list[torch.Tensor]] = {}  # one variable has one scale
    for name, parameter in model.named_parameters():
        variable = re.sub(r"(?<=attention\.)(query|key|value)|(?<=cross\.)(key|value)", "fused", name)
        together.setdefault(variable, []).append(parameter)
    with torch.no_grad():
        for name, parts in together.items():
            kind = "weight" if parts[0].dim() == 2 and not name.endswith("positions") else "other"
            left = torch.from_numpy(_widened(_quantized({kind: torch.cat(parts)}, quantization), kind))
            for part, new in zip(parts, left.chunk(len(parts)), strict=True):
                part.copy_(new)
    return model


def _widened(values: dict[str, Any], name: str) -> Any:
    value = values[name]
    if isinstance(value, Bfloat16):
        return (value.halves.astype(np.uint32) << 16).view(np.float32)
    if value.dtype.kind == "f":
        return value.astype(np.float32)
    inverse = np.float32(1) / values[f"{name}_scale"]
    return value.astype(np.float32) * (inverse[:, None] if inverse.ndim else inverse)


def _stack(side: str, model: Transformer) -> dict[str, Any]:
    architecture, encoder = model.architecture, side == "encoder"
    embedding = model.source_embedding if encoder else model.target_embedding
    found: dict[str, Any] = {
        f"{side}/num_heads": np.int16(architecture.heads),
        f"{side}/pre_norm": np.int8(architecture.norm_first),
        f"{side}/activation": np.int8(ACTIVATIONS[architecture.activation]),
        f"{side}/scale_embeddings": np.int8(1)
        if architecture.embedding_scale is None
        else np.float32(architecture.embedding_scale),
        f"{side}/position_encodings/encodings": embedding.positions,
    }
    if architecture.final_norm:
        found |= _norm(f"{side}/layer_norm", model.encoder_norm if encoder else model.decoder_norm)
    if architecture.embedding_norm:
        found |= _norm(f"{side}/layernorm_embedding", embedding.norm)
    for number, layer in enumerate(model.encoder if encoder else model.decoder):
        found |= _layer(f"{side}/layer_{number}", layer, cross=not encoder)
    return found


def _layer(scope: str, layer: Any, *, cross: bool) -> dict[str, Any]:
    own, inner = layer.attention, layer.feed_forward
    found = _linear(f"{scope}/self_attention/linear_0", own.query, own.key, own.value)
    found |= _linear(f"{scope}/self_attention/linear_1", own.output)
    found |= _norm(f"{scope}/self_attention/layer_norm", layer.attention_residual.norm)
    if cross:
        found |= _linear(f"{scope}/attention/linear_0", layer.cross.query)
        found |= _linear(f"{scope}/attention/linear_1", layer.cross.key, layer.cross.value)
        found |= _linear(f"{scope}/attention/linear_2", layer.cross.output)
        found |= _norm(f"{scope}/attention/layer_norm", layer.cross_residual.norm)
    if inner.gate is not None:
        found |= _linear(f"{scope}/ffn/linear_0", inner.gate)
        found |= _linear(f"{scope}/ffn/linear_0_noact", inner.inner)
    else:
        found |= _linear(f"{scope}/ffn/linear_0", inner.inner)
    found |= _linear(f"{scope}/ffn/linear_1", inner.output)
    return found | _norm(f"{scope}/ffn/layer_norm", layer.feed_forward_residual.norm)


def _linear(scope: str, *parts: Any) -> dict[str, Any]:
    return {f"{scope}/{kind}": torch.cat([getattr(part, kind) for part in parts]) for kind in ("weight", "bias")}


def _norm(scope: str, norm: Any) -> dict[str, Any]:
    return {f"{scope}/gamma": norm.weight, f"{scope}/beta": norm.bias}


def _quantized(found: dict[str, Any], quantization: Quantization) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in found.items():
        if not isinstance(value, torch.Tensor):
            made[name] = value
            continue
        numbers = value.detach().numpy()
        weight = name.endswith("weight")
        if weight and quantization.startswith("int8"):
            largest = np.abs(numbers).max(axis=1)
            made[f"{name}_scale"] = (127 / np.where(largest == 0, 127, largest)).astype(np.float32)
            made[name] = np.rint(numbers * made[f"{name}_scale"][:, None]).astype(np.int8)
        elif weight and quantization == "int16":
            made[f"{name}_scale"] = np.float32(2**10 / np.abs(numbers).max())
            made[name] = np.rint(numbers * made[f"{name}_scale"]).astype(np.int16)
        elif quantization == "bfloat16":
            made[name] = Bfloat16(value.detach().bfloat16().view(torch.int16).numpy().view(np.uint16))
        else:
            made[name] = numbers.astype(np.float16 if "float16" in quantization else np.float32)
    return made


def _text(text: str) -> bytes:
    content = text.encode() + b"\0"
    return struct.pack("<H", len(content)) + content


def _variable(name: str, value: Any, version: int) -> bytes:
    kind = "bfloat16" if isinstance(value, Bfloat16) else value.dtype.name
    array = value.halves if isinstance(value, Bfloat16) else np.asarray(value)
    head = _text(name) + struct.pack("<B", array.ndim) + b"".join(struct.pack("<I", size) for size in array.shape)
    if version < 4:
        return head + struct.pack("<BI", array.itemsize, array.size) + array.tobytes()
    return head + struct.pack("<BI", TYPES[kind], array.nbytes) + array.tobytes()
