"""Write a source model in CTranslate2's format.

Its vocabulary entries are the token ids in decimal notation, so that it reads and returns the same ids as a bundle.
"""

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
from ctranslate2.specs import Activation, TransformerSpec
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2edge.config.architecture import Architecture
from seq2edge.errors import CheckpointError, listed
from seq2edge_export.model.layers import DecoderLayer, EncoderLayer, FeedForward, MultiHeadAttention
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.peers.ctranslate2 import COMPUTE_TYPES
from seq2edge_export.peers.interface import transformer_of
from seq2edge_export.source_model import SourceModel

ACTIVATIONS = {
    "relu": Activation.RELU,
    "gelu": Activation.GELU,
    "gelu_tanh": Activation.GELUTanh,
    "gelu_sigmoid": Activation.GELUSigmoid,
    "silu": Activation.SWISH,
}


def write_model(source_model: SourceModel, folder: Path, *, precision: str) -> None:
    """Write a folder that CTranslate2 can load, in fp32 or int8."""
    spec = convert(transformer_of(source_model))
    shape, tokens = transformer_of(source_model).architecture, source_model.tokens
    spec.register_source_vocabulary([str(token) for token in range(shape.source_vocabulary)])
    spec.register_target_vocabulary([str(token) for token in range(shape.target_vocabulary)])
    spec.config.bos_token, spec.config.eos_token = str(tokens.bos), str(tokens.eos)
    spec.config.unk_token = str(tokens.unk)
    spec.config.decoder_start_token = str(source_model.generation.decoder_start_token_id)
    spec.config.layer_norm_epsilon = shape.norm_epsilon
    spec.validate()
    spec.optimize(quantization=COMPUTE_TYPES[precision])
    folder.mkdir(parents=True)
    spec.save(str(folder))


def convert(model: Transformer) -> TransformerSpec:
    """Copy all weights into a CTranslate2 model; one error names everything that it cannot represent."""
    shape = model.architecture
    problems = unsupported(shape)
    if problems:
        raise CheckpointError(f"CTranslate2 cannot run this model: it has {listed(problems)}")
    spec = TransformerSpec.from_config(
        num_layers=(shape.encoder_layers, shape.decoder_layers),
        num_heads=shape.heads,
        pre_norm=shape.norm_first,
        no_final_norm=not shape.final_norm,
        activation=ACTIVATIONS[shape.activation],
        ffn_glu=shape.gated,
        layernorm_embedding=shape.embedding_norm,
    )
    _set_embeddings(spec, model)
    for target, layer in zip(spec.encoder.layer, model.encoder, strict=True):
        _set_encoder_layer(target, cast("EncoderLayer", layer))
    for target, layer in zip(spec.decoder.layer, model.decoder, strict=True):
        _set_decoder_layer(target, cast("DecoderLayer", layer))
    if shape.final_norm:
        _set_norm(spec.encoder.layer_norm, model.encoder_norm)
        _set_norm(spec.decoder.layer_norm, model.decoder_norm)
    spec.decoder.start_from_zero_embedding = shape.zero_start
    spec.decoder.projection.weight = _array(model.output.weight)
    if model.output.bias is not None:
        spec.decoder.projection.bias = _array(model.output.bias)
    return spec


def unsupported(shape: Architecture) -> list[str]:
    """List the features of an architecture that this writer cannot represent."""
    problems = {
        f"the norm {shape.norm!r}": shape.norm != "layer",
        "a final norm after layers that end in a norm": shape.final_norm and not shape.norm_first,
        "linear layers without bias": not shape.bias,
        f"{shape.positions} positions": shape.positions in ("relative", "none"),
        f"an attention width of {shape.attention_width}": shape.inner_width != shape.width,
        f"the attention scale {shape.attention_scale}": shape.attention_scale is not None,
        f"the output scale {shape.output_scale}": shape.output_scale != 1,
        "a recurrent decoder": shape.decoder_cell != "attention",
    }
    return [problem for problem, is_present in problems.items() if is_present]


def _set_embeddings(spec: TransformerSpec, model: Transformer) -> None:
    shape = model.architecture
    scale = math.sqrt(shape.width) if shape.embedding_scale is None else shape.embedding_scale
    sides = (
        (spec.encoder, spec.encoder.embeddings[0], model.source_embedding),
        (spec.decoder, spec.decoder.embeddings, model.target_embedding),
    )
    for side, table, embedding in sides:
        table.weight = _array(embedding.tokens.weight)
        side.scale_embeddings = np.float32(scale)
        side.position_encodings.encodings = _array(embedding.positions)
        if shape.embedding_norm:
            _set_norm(side.layernorm_embedding, embedding.norm)


def _set_encoder_layer(target: Any, layer: EncoderLayer) -> None:
    _set_self_attention(target.self_attention, layer.attention, layer.attention_residual.norm)
    _set_feed_forward(target.ffn, layer.feed_forward, layer.feed_forward_residual.norm)


def _set_decoder_layer(target: Any, layer: DecoderLayer) -> None:
    assert layer.attention is not None
    _set_self_attention(target.self_attention, layer.attention, layer.attention_residual.norm)
    query, keys_values, output = target.attention.linear
    _set_linear(query, layer.cross.query)
    _set_linear(keys_values, layer.cross.key, layer.cross.value)
    _set_linear(output, layer.cross.output)
    _set_norm(target.attention.layer_norm, layer.cross_residual.norm)
    _set_feed_forward(target.ffn, layer.feed_forward, layer.feed_forward_residual.norm)


def _set_self_attention(target: Any, attention: MultiHeadAttention, norm: nn.Module) -> None:
    _set_linear(target.linear[0], attention.query, attention.key, attention.value)
    _set_linear(target.linear[1], attention.output)
    _set_norm(target.layer_norm, norm)


def _set_feed_forward(target: Any, feed_forward: FeedForward, norm: nn.Module) -> None:
    if feed_forward.gate is None:
        _set_linear(target.linear_0, feed_forward.inner)
    else:  # linear_0 is the layer with the activation
        _set_linear(target.linear_0, feed_forward.gate)
        _set_linear(target.linear_0_noact, feed_forward.inner)
    _set_linear(target.linear_1, feed_forward.output)
    _set_norm(target.layer_norm, norm)


def _set_linear(target: Any, *linears: nn.Linear) -> None:
    target.weight = np.concatenate([_array(linear.weight) for linear in linears])
    target.bias = np.concatenate([_array(linear.bias) for linear in linears])


def _set_norm(target: Any, norm: nn.Module) -> None:
    target.gamma, target.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Any) -> NDArray[np.float32]:
    assert isinstance(tensor, Tensor)
    array: NDArray[np.float32] = tensor.detach().numpy().copy()  # CTranslate2 quantizes in place
    return array
