"""Draft a recipe from a state dict, with open questions where tensors are not enough.

The parts of the Transformer are found by the names and shapes of tensors.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seq2edge.config.architecture import Architecture, Positions
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.positions import as_table, is_sinusoidal
from seq2edge_export.loaders.recipe.config import FORMAT_VERSION
from seq2edge_export.loaders.recipe.files import OPEN
from seq2edge_export.loaders.state_dict import StateDict, read_state_dict

ENCODER_TENSOR, DECODER_TENSOR = ".layers.0.self_attn.in_proj_weight", ".layers.0.multihead_attn.in_proj_weight"
POSITION = re.compile(r"pos|(^|[._])pe($|[._])", re.IGNORECASE)
OUTPUT = re.compile(r"gen|out|head|proj|fc|final|logit|classif|predict", re.IGNORECASE)
TARGET = re.compile(r"tgt|trg|target|dec", re.IGNORECASE)
FORMULAS: tuple[Positions, ...] = ("sinusoidal", "sinusoidal_halves")
POSITIONS, NEW_TOKENS = 512, 128  # limits of the draft; tables are often much longer
HEADER = (
    "# The tensors and settings of a model; docs/recipe.md explains every field.",
    f'# The weights do not show what is marked with TODO: replace each "{OPEN}", and check the other lines.',
)


@dataclass
class Inspection:
    """The parts of a Transformer in a state dict; a part that was not found has an empty name."""

    encoder: str
    decoder: str
    width: int
    source_embedding: str = ""
    target_embedding: str = ""
    output: str = ""
    output_bias: str = ""
    position_kind: Positions = "none"
    source_positions: str = ""
    target_positions: str = ""
    position_rows: int = 0
    bias: bool = True
    rest: list[str] = field(default_factory=list)  # tensors of no part


@dataclass(frozen=True)
class Line:
    """A field of the recipe, a heading, or an empty line."""

    key: str = ""
    value: Any = None
    comment: str = ""

    def __str__(self) -> str:
        if self.value is None:
            return self.key
        comment = f"  # {self.comment}" if self.comment else ""
        return f"{self.key} = {_toml(self.value)}{comment}"


def draft_recipe(weights: Path, recipe: Path) -> str:
    """Return the text of a recipe for the state dict in ``weights``, to be written to ``recipe``."""
    found = inspect_state(read_state_dict(weights))
    relative = Path(os.path.relpath(weights, recipe.parent)).as_posix()
    lines = [*HEADER, *map(str, _lines(found, relative))]
    return "\n".join(lines) + "\n"


def inspect_state(state: StateDict) -> Inspection:
    """Find the parts of the Transformer by the names and shapes of tensors."""
    encoder, decoder = _stacks(state)
    width = state[encoder + ENCODER_TENSOR].shape[-1]
    found = Inspection(encoder, decoder, width, bias=f"{encoder}.layers.0.linear1.bias" in state)
    found.rest = [name for name in state if not name.startswith((f"{encoder}.", f"{decoder}."))]
    _find_positions(found, state)
    _find_output(found, state)
    _find_embeddings(found, state)
    return found


def _stacks(state: StateDict) -> tuple[str, str]:
    """Return the prefixes of encoder and decoder."""
    decoders = [name.removesuffix(DECODER_TENSOR) for name in state if name.endswith(DECODER_TENSOR)]
    stacks = [name.removesuffix(ENCODER_TENSOR) for name in state if name.endswith(ENCODER_TENSOR)]
    encoders = [name for name in stacks if name not in decoders]
    if len(encoders) != 1 or len(decoders) != 1:
        raise CheckpointError(
            f"this state dict has {len(encoders)} encoders and {len(decoders)} decoders whose tensors are named as in "
            f"nn.Transformer (…{ENCODER_TENSOR}, …{DECODER_TENSOR}); a recipe needs one of each"
        )
    return encoders[0], decoders[0]


def _find_positions(found: Inspection, state: StateDict) -> None:
    tables = [name for name in _tables(found, state) if state[name].dim() == 3 or POSITION.search(name)]
    if not tables:
        return
    found.target_positions = _best(tables, TARGET)
    found.source_positions = _best([name for name in tables if name != found.target_positions] or tables, None)
    table = as_table(state[found.source_positions])
    found.position_rows = min(len(table), len(as_table(state[found.target_positions])))
    kinds = [
        kind for kind in FORMULAS if found.width % 2 == 0 and is_sinusoidal(table, _architecture(kind, found.width))
    ]
    found.position_kind = kinds[0] if kinds else "learned"
    _take(found, found.source_positions, found.target_positions)


def _find_output(found: Inspection, state: StateDict) -> None:
    tables = _tables(found, state)
    with_bias = [name for name in tables if _bias(name) in state]
    named = [name for name in tables if OUTPUT.search(name)]
    found.output = _best(with_bias or named, OUTPUT)
    found.output_bias = _bias(found.output) if found.output in with_bias else ""
    _take(found, found.output, found.output_bias)


def _find_embeddings(found: Inspection, state: StateDict) -> None:
    tables = _tables(found, state)
    found.target_embedding = _best(tables, TARGET)
    found.source_embedding = _best([name for name in tables if name != found.target_embedding] or tables, None)
    found.output = found.output or found.target_embedding
    _take(found, found.source_embedding, found.target_embedding)


def _tables(found: Inspection, state: StateDict) -> list[str]:
    """Return the remaining matrices whose rows have the width of the model."""
    shapes = {name: as_table(state[name]).shape for name in found.rest if state[name].is_floating_point()}
    return [name for name, shape in shapes.items() if len(shape) == 2 and shape[1] == found.width and shape[0]]


def _best(names: list[str], hint: re.Pattern[str] | None) -> str:
    """Return the last name that matches the hint, else the last; without a hint, the first."""
    hinted = [name for name in names if hint and hint.search(name)]
    return (hinted[-1:] or (names[-1:] if hint else names[:1]) or [""])[0]


def _bias(weight: str) -> str:
    return weight.removesuffix("weight") + "bias"


def _take(found: Inspection, *names: str) -> None:
    found.rest = [name for name in found.rest if name not in names]


def _architecture(kind: Positions, width: int) -> Architecture:
    return Architecture(
        source_vocabulary=1,
        target_vocabulary=1,
        width=width,
        heads=1,
        encoder_layers=1,
        decoder_layers=1,
        feed_forward=1,
        positions=kind,
    )


def _lines(found: Inspection, weights: str) -> Iterator[Line]:
    yield Line("format_version", FORMAT_VERSION)
    yield Line("weights", weights)
    for section, lines in (
        ("tensors", _tensors(found)),
        ("positions", _positions(found)),
        ("model", _model(found)),
        ("tokens", _tokens()),
        ("tokenizer", _tokenizer()),
        ("generation", _generation(found)),
    ):
        yield Line()
        yield Line(f"[{section}]")
        yield from lines


def _tensors(found: Inspection) -> Iterator[Line]:
    yield Line("encoder", found.encoder)
    yield Line("decoder", found.decoder)
    yield Line("source_embedding", found.source_embedding or OPEN, _certainty(found))
    yield Line("target_embedding", found.target_embedding or OPEN)
    tied = found.output == found.target_embedding
    yield Line("output", found.output or OPEN, "TODO check: no separate output projection was found" if tied else "")
    if found.output_bias:
        yield Line("output_bias", found.output_bias)
    rest = f"TODO unused tensors, to be named here if they are not needed: {', '.join(found.rest)}"
    yield Line("ignore", [], rest if found.rest else "")


def _certainty(found: Inspection) -> str:
    """Comment on how the embeddings were distinguished."""
    if found.source_embedding == found.target_embedding:
        return "the only embedding, so used for both"
    return "" if TARGET.search(found.target_embedding) else "TODO check: guessed from the order"


def _positions(found: Inspection) -> Iterator[Line]:
    if not found.source_positions:
        yield Line("kind", OPEN, "TODO no table was found: sinusoidal, sinusoidal_halves or none")
        yield Line("max_positions", POSITIONS, "TODO check: the longest sentence that the model was trained for")
        return
    learned = found.position_kind == "learned"
    yield Line("kind", found.position_kind, "" if learned else "the table matches the formula")
    yield Line("source", found.source_positions)
    yield Line("target", found.target_positions)
    yield Line("offset", 0, "TODO check: the row of the first token" if learned else "")
    yield Line("max_positions", min(found.position_rows, POSITIONS), f"the table has {found.position_rows} rows")


def _model(found: Inspection) -> Iterator[Line]:
    heads = ", ".join(str(count) for count in range(1, 33) if found.width % count == 0)
    yield Line("heads", OPEN, f"TODO nhead: one of {heads}")
    yield Line("norm_first", False, "TODO check: false is PyTorch's default")
    yield Line("activation", "relu", "TODO check: relu is PyTorch's default; gelu and silu are the others")
    yield Line("norm_epsilon", 1e-5)
    yield Line("embedding_scale", "sqrt", 'TODO check: "sqrt" if embeddings are multiplied by sqrt(width), else 1.0')
    yield Line("bias", found.bias)


def _tokens() -> Iterator[Line]:
    for name, meaning in (("pad", "padding"), ("bos", "start"), ("eos", "end"), ("unk", "unknown")):
        yield Line(name, OPEN, f"TODO id of the {meaning} token")


def _tokenizer() -> Iterator[Line]:
    yield Line("kind", OPEN, "TODO characters, words, bpe, sentencepiece or pieces")
    yield Line("source", OPEN, "TODO file: one token per line, .json, or a SentencePiece .model")
    yield Line("target", OPEN, "TODO file; the same file if both sides share it")
    yield Line("lowercase", False, "TODO check")
    yield Line("source_bos", True, "TODO check: does the source begin with the start token, as in the tutorial?")
    yield Line("source_eos", True, "TODO check: does it end with the end token?")


def _generation(found: Inspection) -> Iterator[Line]:
    yield Line("num_beams", 1)
    yield Line("max_new_tokens", min(found.position_rows or POSITIONS, NEW_TOKENS))


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)  # strings, numbers, booleans and lists look the same in TOML
