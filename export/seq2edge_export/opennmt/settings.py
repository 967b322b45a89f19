"""The settings of a model that both frameworks have, in one form; needs nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from seq2edge.architecture import Activation, Norm
from seq2edge.errors import CheckpointError

Options = Mapping[str, Any]
GATED = "gated-"
ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "silu": "silu",
    "gelu-tanh": "gelu_tanh",
    "quick_gelu": "gelu_sigmoid",
}
NORMS: dict[str, Norm] = {"standard": "layer", "standardFP32": "layer", "rms": "rms"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the tensors do not say."""

    heads: int
    key_heads: int  # of keys and values: each serves as many heads of queries as it takes
    head_width: int | None  # None: the width, divided among the heads
    attention_scale: float | None
    activation: str  # by eole's name, with GATED before it
    norm: str
    epsilon: float
    positions: bool  # vectors of positions are added to those of tokens
    scaled_tokens: bool  # token vectors are multiplied by the root of the width
    scaled_positions: bool  # and so are those of positions
    first_position: int  # the row of the first token in the table of positions
    shared: bool  # source and target have one embedding
    tied: bool  # the output projection is the target embedding


@dataclass(frozen=True)
class Limit:
    """An option, the values with which our Transformer does the same, and what any other one is, for people."""

    name: str
    fine: tuple[Any, ...]
    words: str


def beyond(options: Options, limits: Iterable[Limit], defaults: Options) -> list[str]:
    """What is asked for and our Transformer has not."""
    found = []
    for limit in limits:
        value = options.get(limit.name, defaults.get(limit.name, limit.fine[0]))
        if value not in limit.fine:
            found.append(f"{limit.words} ({limit.name} = {value!r})")
    return found


def unsupported_settings(settings: Settings) -> list[str]:
    """What the names of kinds say that our Transformer has not."""
    found = []
    if settings.activation.removeprefix(GATED) not in ACTIVATIONS:
        found.append(f"the activation {settings.activation}")
    if settings.norm not in NORMS:
        found.append(f"norms of the kind {settings.norm}")
    return found


def check_numbers(settings: Settings, where: str) -> None:
    """Refuse settings that are no numbers, before anything is computed with them."""
    counts = {"heads": settings.heads, "heads of keys and values": settings.key_heads}
    sizes = {"norm_eps": settings.epsilon}
    if settings.head_width is not None:
        counts["head_dim"] = settings.head_width
    if settings.attention_scale is not None:
        sizes["attn_scaling"] = settings.attention_scale
    wrong = [f"{name} = {value!r}" for name, value in counts.items() if type(value) is not int or value < 1]
    wrong += [
        f"{name} = {value!r}" for name, value in sizes.items() if type(value) not in (int, float) or not value > 0
    ]
    if type(settings.first_position) is not int or settings.first_position < 0:
        wrong.append(f"position_shift = {settings.first_position!r}")
    if wrong:
        raise CheckpointError(f"{where} has settings that cannot be: {'; '.join(wrong)}")
