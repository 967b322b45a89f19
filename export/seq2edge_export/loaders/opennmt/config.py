"""What a checkpoint holds, in one form for both frameworks.

The settings of a model that both frameworks have, in one form.

The shape of the model that the tensors and settings of a checkpoint are.

How OpenNMT-py and eole search, said in Hugging Face's words.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2edge.config.architecture import Activation, Architecture, Norm
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.schema import ClosedError, read_closed
from seq2edge.config.tokenizer import SpecialTokens
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.opennmt.weights import OUTPUT, TensorLayout
from seq2edge_export.loaders.state_dict import StateDict

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
class OpenNmtSettings:
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
class NumberLimit:
    """An option, the values with which our Transformer does the same, and what any other one is, for people."""

    name: str
    fine: tuple[Any, ...]
    words: str


def beyond(options: Options, limits: Iterable[NumberLimit], defaults: Options) -> list[str]:
    """What is asked for and our Transformer has not."""
    found = []
    for limit in limits:
        value = options.get(limit.name, defaults.get(limit.name, limit.fine[0]))
        if value not in limit.fine:
            found.append(f"{limit.words} ({limit.name} = {value!r})")
    return found


def unsupported_settings(settings: OpenNmtSettings) -> list[str]:
    """What the names of kinds say that our Transformer has not."""
    found = []
    if settings.activation.removeprefix(GATED) not in ACTIVATIONS:
        found.append(f"the activation {settings.activation}")
    if settings.norm not in NORMS:
        found.append(f"norms of the kind {settings.norm}")
    return found


def check_numbers(settings: OpenNmtSettings, where: str) -> None:
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


UNK, PAD, BOS, EOS = "<unk>", "<blank>", "<s>", "</s>"  # unless a vocabulary of eole says otherwise


@dataclass(frozen=True, kw_only=True)
class OpenNmtVocabulary:
    """The tokens of both sides in the order of their ids, and those with a meaning."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    start: str
    pad: str
    eos: str


@dataclass(frozen=True, kw_only=True)
class OpenNmtCheckpoint:
    """A checkpoint as it was found; ``problems`` are what its settings ask for and our Transformer has not."""

    path: Path
    folder: Path  # with the files that belong to it
    layout: TensorLayout
    settings: OpenNmtSettings
    state: StateDict
    words: OpenNmtVocabulary
    transforms: Mapping[str, Options]  # what is done to a text, in this order, with the options of each
    one_cutter: bool  # the target is cut like the source, whatever is said of it
    search: Options  # how eole is told to search
    problems: list[str]


def words_of(content: Any, path: Path) -> OpenNmtVocabulary:
    """The vocabularies as both frameworks write them; eole's may name marks of its own."""
    named: Options = content if isinstance(content, dict) else {}
    source, target = (_tokens(named.get(side), path) for side in ("src", "tgt"))
    specials = named.get("specials")
    marks: Options = specials if isinstance(specials, dict) else {}
    return OpenNmtVocabulary(
        source=source,
        target=target,
        start=str(named.get("decoder_start_token", BOS)),
        pad=str(marks.get("pad_token", PAD)),
        eos=str(marks.get("eos_token", EOS)),
    )


def transforms_of(options: Options) -> tuple[str, ...]:
    """What is done to a text before it is translated: as in validation, or as in training where nothing is said."""
    found = _names(options)
    corpora = options.get("data")
    if not found and isinstance(corpora, dict):
        found = [name for corpus in corpora.values() if isinstance(corpus, dict) for name in _names(corpus)]
    return tuple(dict.fromkeys(found))


def _names(options: Options) -> list[str]:
    found = options.get("transforms")
    return [str(name) for name in found] if isinstance(found, list) else []


def _tokens(found: Any, path: Path) -> tuple[str, ...]:
    if not isinstance(found, list) or not found or not all(isinstance(token, str) for token in found):
        raise CheckpointError(f"{path} has no vocabularies named src and tgt, each a list of tokens")
    return tuple(found)


LONGEST = 1024  # positions that a bundle keeps: both frameworks compute 5000, for texts that nobody trains on
FEWER_HEADS = ("linear_keys", "linear_values")
LORA = "LoRA weights, without the model that they belong to or not merged with it"


def unsupported_tensors(state: StateDict) -> list[str]:
    """What the names of tensors say that our Transformer has not."""
    return [LORA] if any(".lora_" in name for name in state) else []


def shape_of(given: OpenNmtCheckpoint) -> Architecture:
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


def with_all_heads(given: OpenNmtCheckpoint, shape: Architecture) -> StateDict:
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


def _shared_tables(given: OpenNmtCheckpoint) -> tuple[str, str]:
    """The names of target embedding and output projection; eole stores a shared table once."""
    layout, settings, state = given.layout, given.settings, given.state
    target = layout.source if settings.shared and layout.target not in state else layout.target
    output = f"{OUTPUT}.weight"
    return target, target if settings.tied and output not in state else output


def _check_tables(given: OpenNmtCheckpoint, *names: str) -> None:
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


BEAMS, MOST = 5, 250  # of both, where nothing else is said
LIMITS = (
    NumberLimit("length_penalty", ("avg", "none"), "the length penalty of GNMT"),
    NumberLimit("coverage_penalty", ("none",), "a coverage penalty"),
    NumberLimit("ratio", (0, None), "a ratio that ends the search"),
    NumberLimit("top_k", (0, 1), "samples instead of a search"),
    NumberLimit("top_p", (0, 1), "samples instead of a search"),
    NumberLimit("replace_unk", (False,), "words of the source in the place of unknown ones"),
)


def unsupported_search(search: Options) -> list[str]:
    """What eole's ``inference`` settings ask for and our search has not."""
    return beyond(search, LIMITS, {})


def generation_of(given: OpenNmtCheckpoint, tokens: SpecialTokens, shape: Architecture) -> GenerationOptions:
    """The defaults of the search."""
    search = given.search
    options: dict[str, Any] = {
        "decoder_start_token_id": tokens.bos,
        "eos_token_id": [tokens.eos, *_other_ends(given)],
        "pad_token_id": tokens.pad,
        "num_beams": search.get("beam_size", BEAMS),
        "max_new_tokens": search.get("max_length", MOST),
        "min_new_tokens": search.get("min_length", 0),
        "length_penalty": search.get("alpha", 1.0) if search.get("length_penalty", "avg") == "avg" else 0.0,
        "no_repeat_ngram_size": search.get("block_ngram_repeat", 0),
        "suppress_tokens": [tokens.unk] if search.get("ban_unk_token") else None,
    }
    if isinstance(options["max_new_tokens"], int):
        options["max_new_tokens"] = min(options["max_new_tokens"], shape.max_positions)
    try:
        return read_closed(GenerationOptions, options, where="the inference settings")
    except ClosedError as error:
        raise CheckpointError(f"{given.path} is not as eole writes it: {error}") from None


def _other_ends(given: OpenNmtCheckpoint) -> list[int]:
    named = given.search.get("optional_eos")
    ends = {str(token) for token in named} if isinstance(named, list) else set()
    return [number for number, token in enumerate(given.words.target) if token in ends]
