"""A checkpoint as a Hugging Face folder: Marian where norms stand behind the layers, Pegasus where before.

Both have sinusoidal positions, all sines before all cosines. A model that has them interleaved becomes the same model
when the width is put into another order everywhere, so that is done. Marian's output starts from a vector of zeros;
here that is one more token with such a vector, which is never made.
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from seq2edge.config.architecture import Architecture
from seq2edge_export.loaders.hugging_face.weights import BIAS, SHARED, weight_map
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.peers.interface import transformer_of
from seq2edge_export.source_model import SourceModel

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "silu": "silu",
    "gelu_tanh": "gelu_pytorch_tanh",
    "gelu_sigmoid": "quick_gelu",
}
EPSILON = 1e-5  # of all norms there
SINUSOIDAL = ("sinusoidal", "sinusoidal_halves")
FROM_WIDTH = ("q_proj.weight", "k_proj.weight", "v_proj.weight", "fc1.weight")  # what reads the states
TO_WIDTH = ("out_proj.weight", "out_proj.bias", "fc2.weight", "fc2.bias")  # what adds to them


def inexpressible(shape: Architecture) -> list[str]:
    """What neither of the two can be; nothing if one of them can."""
    problems = {
        f"the norm {shape.norm!r}": shape.norm != "layer",
        f"norm_epsilon {shape.norm_epsilon}": shape.norm_epsilon != EPSILON,
        "a final norm without norms before the layers, or these without it": shape.final_norm != shape.norm_first,
        "a norm behind the embeddings": shape.embedding_norm,
        "linear layers without bias": not shape.bias,
        "gated feed-forward layers": shape.gated,
        f"{shape.positions} positions": shape.positions not in SINUSOIDAL or shape.position_offset != 0,
        "a recurrent decoder": shape.decoder_cell != "attention",
        f"heads of another width, {shape.attention_width}": shape.inner_width != shape.width,
        f"the attention scale {shape.attention_scale}": shape.attention_scale is not None,
        f"the output scale {shape.output_scale}": shape.output_scale != 1,
        f"the embedding scale {shape.embedding_scale}": _scales(shape) is None,
        "separate embeddings": not (shape.joint_vocabulary and shape.tied_output),
    }
    return [problem for problem, found in problems.items() if found]


def write_folder(original: SourceModel, folder: Path) -> None:
    """config.json, generation_config.json and model.safetensors; for a model that is expressible."""
    model = transformer_of(original)
    assert not inexpressible(model.shape)
    (folder / "config.json").write_text(json.dumps(_config(original, model.shape), indent=2), encoding="utf-8")
    (folder / "generation_config.json").write_text(json.dumps(_tokens(original, model.shape)), encoding="utf-8")
    save_file(_weights(model), folder / "model.safetensors", metadata={"format": "pt"})


def _config(original: SourceModel, shape: Architecture) -> dict[str, Any]:
    before = shape.norm_first
    return {
        "model_type": "pegasus" if before else "marian",
        "architectures": ["PegasusForConditionalGeneration" if before else "MarianMTModel"],
        "is_encoder_decoder": True,
        "vocab_size": _rows(shape),
        "decoder_vocab_size": _rows(shape),
        "d_model": shape.width,
        "encoder_layers": shape.encoder_layers,
        "decoder_layers": shape.decoder_layers,
        "num_hidden_layers": shape.encoder_layers,
        "encoder_attention_heads": shape.heads,
        "decoder_attention_heads": shape.heads,
        "encoder_ffn_dim": shape.feed_forward,
        "decoder_ffn_dim": shape.feed_forward,
        "activation_function": ACTIVATIONS[shape.activation],
        "max_position_embeddings": shape.max_positions,
        "scale_embedding": _scales(shape),
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "use_cache": True,
        **_tokens(original, shape),
    }


def _tokens(original: SourceModel, shape: Architecture) -> dict[str, Any]:
    start = shape.target_vocabulary if shape.zero_start else original.generation.decoder_start_token_id
    tokens = original.tokens
    return {
        "pad_token_id": tokens.pad,
        "bos_token_id": tokens.bos,
        "eos_token_id": tokens.eos,
        "decoder_start_token_id": start,
        "forced_eos_token_id": None,
    }


def _weights(model: Transformer) -> dict[str, Tensor]:
    shape = model.shape
    parameters = dict(model.named_parameters())
    order = _order(shape)
    found = {
        place.theirs: _ordered(place.theirs, parameters[place.ours[0]].detach(), order) for place in weight_map(shape)
    }
    table = model.target_embedding.tokens.weight.detach()[:, order]
    bias = torch.zeros(shape.target_vocabulary) if model.output.bias is None else model.output.bias.detach()
    more = _rows(shape) - shape.target_vocabulary
    found[SHARED] = torch.cat([table, torch.zeros(more, shape.width)])
    found[BIAS] = torch.cat([bias, torch.full((more,), -math.inf)])[None]  # (1, V)
    return {name: tensor.contiguous() for name, tensor in found.items()}


def _ordered(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    """A weight for states whose width is in another order; what is inside an attention keeps its own."""
    if name.endswith(FROM_WIDTH):
        return tensor[:, order]
    return tensor[order] if name.endswith(TO_WIDTH) or "norm" in name else tensor


def _order(shape: Architecture) -> Tensor:
    weight_map = torch.arange(shape.width)
    return torch.cat([weight_map[0::2], weight_map[1::2]]) if shape.positions == "sinusoidal" else weight_map


def _rows(shape: Architecture) -> int:
    return shape.target_vocabulary + shape.zero_start


def _scales(shape: Architecture) -> bool | None:
    """Whether token vectors are multiplied by the root of the width; None if by something else."""
    if shape.embedding_scale is None or math.isclose(shape.embedding_scale, math.sqrt(shape.width), rel_tol=1e-6):
        return True
    return False if shape.embedding_scale == 1 else None
