"""Give CTranslate2 the same weights: a seq2edge checkpoint as a CTranslate2 model.

    python benchmarks/to_ctranslate2.py CHECKPOINT FOLDER [--quantization int8]

For comparing, so it takes only what that needs: one joint SentencePiece vocabulary, tied embeddings, no gates.
"""

import math
from pathlib import Path

import click
import ctranslate2
import numpy as np
from ctranslate2.specs import Activation, TransformerSpec
from numpy.typing import NDArray
from torch import nn

from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.model import Attention, DecoderLayer, EncoderLayer, FeedForward, Transformer

ACTIVATIONS = {"relu": Activation.RELU, "gelu": Activation.GELU, "silu": Activation.SWISH}


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--quantization", default=None, help="As CTranslate2's converters have it, such as int8.")
def main(checkpoint: Path, folder: Path, quantization: str | None) -> None:
    """Write FOLDER, which must not exist."""
    loaded = load_checkpoint(checkpoint)
    original = loaded.original()
    model = original.graphs.encoder.model
    assert isinstance(model, Transformer)
    spec = convert(model)
    vocabulary = original.tokenizer().source
    pieces = [vocabulary.piece(number) for number in range(vocabulary.get_piece_size())]
    pieces += [f"<unused {number}>" for number in range(len(pieces), model.shape.target_vocabulary)]
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.add_source_eos = True
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = (
        pieces[number] for number in (original.tokens.bos, original.tokens.eos, original.tokens.unk)
    )
    spec.config.decoder_start_token = pieces[original.generation.decoder_start_token_id]
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir()
    spec.save(str(folder))
    print(f"{folder}: {sum(file.stat().st_size for file in folder.iterdir()) / 1e6:.2f} MB, {ctranslate2.__version__}")


def convert(model: Transformer) -> TransformerSpec:
    shape = model.shape
    spec = TransformerSpec.from_config(
        num_layers=(shape.encoder_layers, shape.decoder_layers),
        num_heads=shape.heads,
        pre_norm=shape.norm_first,
        activation=ACTIVATIONS[shape.activation],
    )
    scale = math.sqrt(shape.width) if shape.embedding_scale is None else shape.embedding_scale
    for side, embedding, norm in (
        (spec.encoder, model.source_embedding, model.encoder_norm),
        (spec.decoder, model.target_embedding, model.decoder_norm),
    ):
        table = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        table.weight = numbers(embedding.tokens.weight)
        table.multiply_by_sqrt_depth = bool(np.isclose(scale, math.sqrt(shape.width)))
        side.scale_embeddings = table.multiply_by_sqrt_depth
        side.position_encodings.encodings = numbers(embedding.positions)
        if shape.final_norm:
            set_norm(side.layer_norm, norm)
    for theirs, layer in zip(spec.encoder.layer, model.encoder, strict=True):
        set_encoder_layer(theirs, layer)
    for theirs, layer in zip(spec.decoder.layer, model.decoder, strict=True):
        set_decoder_layer(theirs, layer)
    spec.decoder.projection.weight = numbers(model.output.weight)
    if model.output.bias is not None:
        spec.decoder.projection.bias = numbers(model.output.bias)
    return spec


def set_encoder_layer(theirs: object, layer: EncoderLayer) -> None:
    set_self_attention(theirs.self_attention, layer.attention, layer.attention_residual.norm)
    set_feed_forward(theirs.ffn, layer.feed_forward, layer.feed_forward_residual.norm)


def set_decoder_layer(theirs: object, layer: DecoderLayer) -> None:
    set_self_attention(theirs.self_attention, layer.attention, layer.attention_residual.norm)
    query, keys_values, output = theirs.attention.linear
    set_linear(query, layer.cross.query)
    set_linear(keys_values, layer.cross.key, layer.cross.value)
    set_linear(output, layer.cross.output)
    set_norm(theirs.attention.layer_norm, layer.cross_residual.norm)
    set_feed_forward(theirs.ffn, layer.feed_forward, layer.feed_forward_residual.norm)


def set_self_attention(theirs: object, attention: Attention, norm: nn.Module) -> None:
    set_linear(theirs.linear[0], attention.query, attention.key, attention.value)
    set_linear(theirs.linear[1], attention.output)
    set_norm(theirs.layer_norm, norm)


def set_feed_forward(theirs: object, feed_forward: FeedForward, norm: nn.Module) -> None:
    set_linear(theirs.linear_0, feed_forward.inner)
    set_linear(theirs.linear_1, feed_forward.output)
    set_norm(theirs.layer_norm, norm)


def set_linear(theirs: object, *linears: nn.Linear) -> None:
    theirs.weight = np.concatenate([numbers(linear.weight) for linear in linears])
    theirs.bias = np.concatenate([numbers(linear.bias) for linear in linears])


def set_norm(theirs: object, norm: nn.Module) -> None:
    theirs.gamma, theirs.beta = numbers(norm.weight), numbers(norm.bias)


def numbers(tensor: object) -> NDArray[np.float32]:
    found: NDArray[np.float32] = tensor.detach().numpy()
    return found


if __name__ == "__main__":
    main()
