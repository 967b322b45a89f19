"""Draft a recipe from a state dict, with a mark at everything that tensors do not say; needs torch."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2edge_export.recipe.inspection import TARGET, Inspection, inspect_state
from seq2edge_export.recipe.read import OPEN
from seq2edge_export.recipe.settings import FORMAT_VERSION
from seq2edge_export.state_dict import read_state_dict

POSITIONS, NEW_TOKENS = 512, 128  # a table may be made for far more positions than anyone needs
HEADER = (
    "# Which tensors are what; docs/recipe.md explains every field.",
    f'# The weights do not say what stands behind TODO: replace each "{OPEN}", and check the other lines.',
)


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
    """The text of a recipe, to be written to ``recipe``, for the state dict in ``weights``."""
    found = inspect_state(read_state_dict(weights))
    relative = Path(os.path.relpath(weights, recipe.parent)).as_posix()
    lines = [*HEADER, *map(str, _lines(found, relative))]
    return "\n".join(lines) + "\n"


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
    yield Line("output", found.output or OPEN, "TODO check: no output of its own was found" if tied else "")
    if found.output_bias:
        yield Line("output_bias", found.output_bias)
    rest = f"TODO tensors without a place, to be named here if not needed: {', '.join(found.rest)}"
    yield Line("ignore", [], rest if found.rest else "")


def _certainty(found: Inspection) -> str:
    """How the embeddings were told apart."""
    if found.source_embedding == found.target_embedding:
        return "the only embedding, so for both"
    return "" if TARGET.search(found.target_embedding) else "TODO check: guessed by the order"


def _positions(found: Inspection) -> Iterator[Line]:
    if not found.source_positions:
        yield Line("kind", OPEN, "TODO no table was found: sinusoidal, sinusoidal_halves or none")
        yield Line("max_positions", POSITIONS, "TODO check: the longest sentence that the model was trained for")
        return
    learned = found.position_kind == "learned"
    yield Line("kind", found.position_kind, "" if learned else "the table is the formula's")
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
    yield Line("embedding_scale", "sqrt", 'TODO check: "sqrt" if token vectors are times sqrt(width), else 1.0')
    yield Line("bias", found.bias)


def _tokens() -> Iterator[Line]:
    for name, meaning in (("pad", "padding"), ("bos", "start"), ("eos", "end"), ("unk", "unknown")):
        yield Line(name, OPEN, f"TODO id of the {meaning} token")


def _tokenizer() -> Iterator[Line]:
    yield Line("kind", OPEN, "TODO characters, words, bpe, sentencepiece or pieces")
    yield Line("source", OPEN, "TODO file: a token a line, .json, or SentencePiece's .model")
    yield Line("target", OPEN, "TODO file; the same again if there is one for both")
    yield Line("lowercase", False, "TODO check")
    yield Line("source_bos", True, "TODO check: does the start token stand before the source, as in the tutorial?")
    yield Line("source_eos", True, "TODO check: and the end token behind it?")


def _generation(found: Inspection) -> Iterator[Line]:
    yield Line("num_beams", 1)
    yield Line("max_new_tokens", min(found.position_rows or POSITIONS, NEW_TOKENS))


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)  # strings, numbers, truth values and lists are the same in TOML
