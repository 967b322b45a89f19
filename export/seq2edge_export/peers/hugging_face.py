"""Write a source model as a Hugging Face folder: Marian for post-norm models, Pegasus for pre-norm models.

Both expect sinusoidal positions with all sines before all cosines. A model that interleaves them is converted by
permuting the width of all states. A Marian decoder that starts from a zero vector gets an additional token with a zero
embedding and a bias that keeps it from being generated.
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
NORM_EPSILON = 1e-5  # fixed in both models
SINUSOIDAL = ("sinusoidal", "sinusoidal_halves")
FROM_WIDTH = ("q_proj.weight", "k_proj.weight", "v_proj.weight", "fc1.weight")  # read the states
TO_WIDTH = ("out_proj.weight", "out_proj.bias", "fc2.weight", "fc2.bias")  # write to the states


def unsupported(shape: Architecture) -> list[str]:
    """List the features of an architecture that neither Marian nor Pegasus has."""
    problems = {
        f"the norm {shape.norm!r}": shape.norm != "layer",
        f"norm_epsilon {shape.norm_epsilon}": shape.norm_epsilon != NORM_EPSILON,
        "a final norm without pre-norm layers, or the reverse": shape.final_norm != shape.norm_first,
        "a norm after the embeddings": shape.embedding_norm,
        "linear layers without bias": not shape.bias,
        "gated feed-forward layers": shape.gated,
        f"{shape.positions} positions": shape.positions not in SINUSOIDAL or shape.position_offset != 0,
        "a recurrent decoder": shape.decoder_cell != "attention",
        f"an attention width of {shape.attention_width}": shape.inner_width != shape.width,
        f"the attention scale {shape.attention_scale}": shape.attention_scale is not None,
        f"the output scale {shape.output_scale}": shape.output_scale != 1,
        f"the embedding scale {shape.embedding_scale}": _scales_embeddings(shape) is None,
        "separate embeddings": not (shape.joint_vocabulary and shape.tied_output),
    }
    return [problem for problem, is_present in problems.items() if is_present]


def write_folder(source_model: SourceModel, folder: Path) -> None:
    """Write config.json, generation_config.json and model.safetensors of a supported model."""
    model = transformer_of(source_model)
    assert not unsupported(model.architecture)
    (folder / "config.json").write_text(
        json.dumps(_config(source_model, model.architecture), indent=2), encoding="utf-8"
    )
    (folder / "generation_config.json").write_text(
        json.dumps(_special_tokens(source_model, model.architecture)), encoding="utf-8"
    )
    save_file(_weights(model), folder / "model.safetensors", metadata={"format": "pt"})


def _config(source_model: SourceModel, shape: Architecture) -> dict[str, Any]:
    return {
        "model_type": "pegasus" if shape.norm_first else "marian",
        "architectures": ["PegasusForConditionalGeneration" if shape.norm_first else "MarianMTModel"],
        "is_encoder_decoder": True,
        "vocab_size": _vocabulary_size(shape),
        "decoder_vocab_size": _vocabulary_size(shape),
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
        "scale_embedding": _scales_embeddings(shape),
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "use_cache": True,
        **_special_tokens(source_model, shape),
    }


def _special_tokens(source_model: SourceModel, shape: Architecture) -> dict[str, Any]:
    start = shape.target_vocabulary if shape.zero_start else source_model.generation.decoder_start_token_id
    tokens = source_model.tokens
    return {
        "pad_token_id": tokens.pad,
        "bos_token_id": tokens.bos,
        "eos_token_id": tokens.eos,
        "decoder_start_token_id": start,
        "forced_eos_token_id": None,
    }


def _weights(model: Transformer) -> dict[str, Tensor]:
    shape = model.architecture
    parameters = dict(model.named_parameters())
    order = _order(shape)
    weights = {
        mapping.theirs: _permuted(mapping.theirs, parameters[mapping.ours[0]].detach(), order)
        for mapping in weight_map(shape)
    }
    table = model.target_embedding.tokens.weight.detach()[:, order]
    bias = torch.zeros(shape.target_vocabulary) if model.output.bias is None else model.output.bias.detach()
    added = _vocabulary_size(shape) - shape.target_vocabulary
    weights[SHARED] = torch.cat([table, torch.zeros(added, shape.width)])
    weights[BIAS] = torch.cat([bias, torch.full((added,), -math.inf)])[None]  # (1, V)
    return {name: tensor.contiguous() for name, tensor in weights.items()}


def _permuted(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    """Permute a weight for states whose width is in another order; the inner width of attention is unchanged."""
    if name.endswith(FROM_WIDTH):
        return tensor[:, order]
    return tensor[order] if name.endswith(TO_WIDTH) or "norm" in name else tensor


def _order(shape: Architecture) -> Tensor:
    indices = torch.arange(shape.width)
    return torch.cat([indices[0::2], indices[1::2]]) if shape.positions == "sinusoidal" else indices


def _vocabulary_size(shape: Architecture) -> int:
    return shape.target_vocabulary + shape.zero_start


def _scales_embeddings(shape: Architecture) -> bool | None:
    """Return whether embeddings are multiplied by the square root of the width; None if by something else."""
    if shape.embedding_scale is None or math.isclose(shape.embedding_scale, math.sqrt(shape.width), rel_tol=1e-6):
        return True
    return False if shape.embedding_scale == 1 else None
