"""Any checkpoint that CTranslate2 can express as a model of its own.

Its vocabulary is the ids themselves, written as decimal numbers, so that it reads and makes the same ids as a bundle.
"""

import math
from pathlib import Path
from typing import Any, cast

import ctranslate2
import numpy as np
from ctranslate2.specs import Activation, TransformerSpec
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2edge.bench.system import SystemPlan
from seq2edge.config.architecture import Architecture
from seq2edge.errors import CheckpointError
from seq2edge_export.model.layers import DecoderLayer, EncoderLayer, FeedForward, MultiHeadAttention
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.peers.ctranslate2 import COMPUTE_TYPES
from seq2edge_export.peers.interface import PeerRequest, folder_size, transformer_of
from seq2edge_export.source_model import SourceModel

ACTIVATIONS = {
    "relu": Activation.RELU,
    "gelu": Activation.GELU,
    "gelu_tanh": Activation.GELUTanh,
    "gelu_sigmoid": Activation.GELUSigmoid,
    "silu": Activation.SWISH,
}


def prepare(request: PeerRequest) -> list[SystemPlan]:
    """A folder for each precision."""
    plans = []
    for precision in request.precisions:
        folder = request.folder / precision
        write_model(request.original, folder, precision=precision)
        plans.append(
            SystemPlan(
                name=f"ctranslate2 {precision}",
                kind="ctranslate2",
                path=str(folder),
                precision=precision,
                size=folder_size(folder),
                tool=f"ctranslate2 {ctranslate2.__version__}",
            )
        )
    return plans


def write_model(original: SourceModel, folder: Path, *, precision: str) -> None:
    """A model that CTranslate2 runs, in float32 or int8."""
    spec = convert(transformer_of(original))
    shape, tokens = transformer_of(original).shape, original.tokens
    spec.register_source_vocabulary([str(number) for number in range(shape.source_vocabulary)])
    spec.register_target_vocabulary([str(number) for number in range(shape.target_vocabulary)])
    spec.config.bos_token, spec.config.eos_token = str(tokens.bos), str(tokens.eos)
    spec.config.unk_token = str(tokens.unk)
    spec.config.decoder_start_token = str(original.generation.decoder_start_token_id)
    spec.config.layer_norm_epsilon = shape.norm_epsilon
    spec.validate()
    spec.optimize(quantization=COMPUTE_TYPES[precision])
    folder.mkdir(parents=True)
    spec.save(str(folder))


def convert(model: Transformer) -> TransformerSpec:
    """All weights in their places; whatever cannot be expressed is in one error."""
    shape = model.shape
    problems = unsupported(shape)
    if problems:
        raise CheckpointError(f"CTranslate2 cannot be given this model: it has {'; '.join(problems)}")
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
    for theirs, layer in zip(spec.encoder.layer, model.encoder, strict=True):
        _set_encoder_layer(theirs, cast("EncoderLayer", layer))
    for theirs, layer in zip(spec.decoder.layer, model.decoder, strict=True):
        _set_decoder_layer(theirs, cast("DecoderLayer", layer))
    if shape.final_norm:
        _set_norm(spec.encoder.layer_norm, model.encoder_norm)
        _set_norm(spec.decoder.layer_norm, model.decoder_norm)
    spec.decoder.start_from_zero_embedding = shape.zero_start
    spec.decoder.projection.weight = _numbers(model.output.weight)
    if model.output.bias is not None:
        spec.decoder.projection.bias = _numbers(model.output.bias)
    return spec


def unsupported(shape: Architecture) -> list[str]:
    """What the converter does not write, with its value."""
    problems = {
        f"the norm {shape.norm!r}": shape.norm != "layer",
        "a final norm behind layers that end in a norm": shape.final_norm and not shape.norm_first,
        "linear layers without bias": not shape.bias,
        f"{shape.positions} positions": shape.positions in ("relative", "none"),
        f"heads of another width, {shape.attention_width}": shape.inner_width != shape.width,
        f"the attention scale {shape.attention_scale}": shape.attention_scale is not None,
        f"the output scale {shape.output_scale}": shape.output_scale != 1,
        "a recurrent decoder": shape.decoder_cell != "attention",
    }
    return [problem for problem, found in problems.items() if found]


def _set_embeddings(spec: TransformerSpec, model: Transformer) -> None:
    shape = model.shape
    scale = math.sqrt(shape.width) if shape.embedding_scale is None else shape.embedding_scale
    sides = (
        (spec.encoder, spec.encoder.embeddings[0], model.source_embedding),
        (spec.decoder, spec.decoder.embeddings, model.target_embedding),
    )
    for side, table, embedding in sides:
        table.weight = _numbers(embedding.tokens.weight)
        side.scale_embeddings = np.float32(scale)
        side.position_encodings.encodings = _numbers(embedding.positions)
        if shape.embedding_norm:
            _set_norm(side.layernorm_embedding, embedding.norm)


def _set_encoder_layer(theirs: Any, layer: EncoderLayer) -> None:
    _set_self_attention(theirs.self_attention, layer.attention, layer.attention_residual.norm)
    _set_feed_forward(theirs.ffn, layer.feed_forward, layer.feed_forward_residual.norm)


def _set_decoder_layer(theirs: Any, layer: DecoderLayer) -> None:
    assert layer.attention is not None
    _set_self_attention(theirs.self_attention, layer.attention, layer.attention_residual.norm)
    query, keys_values, output = theirs.attention.linear
    _set_linear(query, layer.cross.query)
    _set_linear(keys_values, layer.cross.key, layer.cross.value)
    _set_linear(output, layer.cross.output)
    _set_norm(theirs.attention.layer_norm, layer.cross_residual.norm)
    _set_feed_forward(theirs.ffn, layer.feed_forward, layer.feed_forward_residual.norm)


def _set_self_attention(theirs: Any, attention: MultiHeadAttention, norm: nn.Module) -> None:
    _set_linear(theirs.linear[0], attention.query, attention.key, attention.value)
    _set_linear(theirs.linear[1], attention.output)
    _set_norm(theirs.layer_norm, norm)


def _set_feed_forward(theirs: Any, feed_forward: FeedForward, norm: nn.Module) -> None:
    if feed_forward.gate is None:
        _set_linear(theirs.linear_0, feed_forward.inner)
    else:  # its first layer is the one that the activation is of
        _set_linear(theirs.linear_0, feed_forward.gate)
        _set_linear(theirs.linear_0_noact, feed_forward.inner)
    _set_linear(theirs.linear_1, feed_forward.output)
    _set_norm(theirs.layer_norm, norm)


def _set_linear(theirs: Any, *linears: nn.Linear) -> None:
    theirs.weight = np.concatenate([_numbers(linear.weight) for linear in linears])
    theirs.bias = np.concatenate([_numbers(linear.bias) for linear in linears])


def _set_norm(theirs: Any, norm: nn.Module) -> None:
    theirs.gamma, theirs.beta = _numbers(norm.weight), _numbers(norm.bias)


def _numbers(tensor: Any) -> NDArray[np.float32]:
    assert isinstance(tensor, Tensor)
    found: NDArray[np.float32] = tensor.detach().numpy().copy()  # CTranslate2 changes what it quantizes in place
    return found
