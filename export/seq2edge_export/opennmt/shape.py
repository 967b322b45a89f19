"""The shape of the model that the tensors and settings of a checkpoint are; needs torch."""

import torch
from torch import Tensor

from seq2edge.architecture import Architecture
from seq2edge.errors import CheckpointError
from seq2edge_export.opennmt.given import Given
from seq2edge_export.opennmt.layout import OUTPUT
from seq2edge_export.opennmt.settings import ACTIVATIONS, GATED, NORMS
from seq2edge_export.state_dict import StateDict

LONGEST = 1024  # positions that a bundle keeps: both frameworks compute 5000, for texts that nobody trains on
FEWER_HEADS = ("linear_keys", "linear_values")
LORA = "LoRA weights, without the model that they belong to or not merged with it"


def unsupported_tensors(state: StateDict) -> list[str]:
    """What the names of tensors say that our Transformer has not."""
    return [LORA] if any(".lora_" in name for name in state) else []


def shape_of(given: Given) -> Architecture:
    """What tensors and settings say together, but for the positions."""
    layout, settings, state = given.layout, given.settings, given.state
    inner = f"{layout.encoder}0.{layout.feed_forward[0]}.weight"
    target, output = _shared_tables(given)
    _check_tables(given, layout.source, target, output, inner)
    feed_forward, width = state[inner].shape
    try:
        return Architecture(
            source_vocabulary=len(state[layout.source]),
            target_vocabulary=len(state[target]),
            width=width,
            heads=settings.heads,
            encoder_layers=_count_layers(state, layout.encoder),
            decoder_layers=_count_layers(state, layout.decoder),
            feed_forward=feed_forward,
            attention_width=None if settings.head_width is None else settings.head_width * settings.heads,
            attention_scale=settings.attention_scale,
            activation=ACTIVATIONS[settings.activation.removeprefix(GATED)],
            gated=settings.activation.startswith(GATED),
            bias=any(_is_linear_bias(name) for name in state),
            norm=NORMS[settings.norm],
            positions="none",
            max_positions=LONGEST,
            joint_vocabulary=_same(state[layout.source], state[target]),
            tied_output=_same(state[target], state[output]),
            output_bias=f"{OUTPUT}.bias" in state,
            embedding_scale=None if settings.scaled_tokens else 1.0,
            norm_epsilon=settings.epsilon,
        )
    except ValueError as error:
        raise CheckpointError(f"the tensors and settings in {given.path} do not fit together: {error}") from None


def with_all_heads(given: Given, shape: Architecture) -> StateDict:
    """The tensors with a head of keys and values for each of queries: shared ones are written out."""
    times = shape.heads // given.settings.key_heads
    kept = given.settings.key_heads * shape.head_width
    if times == 1 or kept * times != shape.inner_width:
        return given.state
    return {
        name: _repeated(tensor, shape.head_width, times) if _has_fewer_heads(name) and len(tensor) == kept else tensor
        for name, tensor in given.state.items()
    }


def _repeated(tensor: Tensor, head_width: int, times: int) -> Tensor:
    heads = tensor.unflatten(0, (-1, head_width))  # (heads of keys, d, D), and without D that of a bias
    return heads.repeat_interleave(times, dim=0).flatten(0, 1)


def _has_fewer_heads(name: str) -> bool:
    return any(f".{module}." in name for module in FEWER_HEADS)


def _shared_tables(given: Given) -> tuple[str, str]:
    """The names of target embedding and output projection; eole stores a shared table once."""
    layout, settings, state = given.layout, given.settings, given.state
    target = layout.source if settings.shared and layout.target not in state else layout.target
    output = f"{OUTPUT}.weight"
    return target, target if settings.tied and output not in state else output


def _check_tables(given: Given, *names: str) -> None:
    """Without these, nothing can be said of the others."""
    state = given.state
    wrong = [name for name in names if name not in state or state[name].dim() != 2 or not state[name].numel()]
    if wrong:
        raise CheckpointError(f"{given.path} has no table named {' nor '.join(wrong)}, which a Transformer needs")


def _count_layers(state: StateDict, before: str) -> int:
    count = 0
    while any(name.startswith(f"{before}{count}.") for name in state):
        count += 1
    return count


def _is_linear_bias(name: str) -> bool:
    return name.endswith(".bias") and "norm" not in name and not name.startswith(OUTPUT)


def _same(first: Tensor, second: Tensor) -> bool:
    return first is second or torch.equal(first, second)
