"""Find the parts of an encoder-decoder Transformer in a state dict by names and shapes; needs torch."""

import re
from dataclasses import dataclass, field

from seq2edge.architecture import Architecture, Positions
from seq2edge.errors import CheckpointError
from seq2edge_export.recipe.positions import as_table, is_sinusoidal
from seq2edge_export.state_dict import StateDict

ENCODER_MARK, DECODER_MARK = ".layers.0.self_attn.in_proj_weight", ".layers.0.multihead_attn.in_proj_weight"
POSITION = re.compile(r"pos|(^|[._])pe($|[._])", re.IGNORECASE)
OUTPUT = re.compile(r"gen|out|head|proj|fc|final|logit|classif|predict", re.IGNORECASE)
TARGET = re.compile(r"tgt|trg|target|dec", re.IGNORECASE)
FORMULAS: tuple[Positions, ...] = ("sinusoidal", "sinusoidal_halves")


@dataclass
class Inspection:
    """What was found; an empty name is a part that was not."""

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
    rest: list[str] = field(default_factory=list)  # what no part is made of


def inspect_state(state: StateDict) -> Inspection:
    """Say which tensors are what, as far as names and shapes tell."""
    encoder, decoder = _stacks(state)
    width = state[encoder + ENCODER_MARK].shape[-1]
    found = Inspection(encoder, decoder, width, bias=f"{encoder}.layers.0.linear1.bias" in state)
    found.rest = [name for name in state if not name.startswith((f"{encoder}.", f"{decoder}."))]
    _find_positions(found, state)
    _find_output(found, state)
    _find_embeddings(found, state)
    return found


def _stacks(state: StateDict) -> tuple[str, str]:
    """The prefixes of encoder and decoder."""
    decoders = [name.removesuffix(DECODER_MARK) for name in state if name.endswith(DECODER_MARK)]
    stacks = [name.removesuffix(ENCODER_MARK) for name in state if name.endswith(ENCODER_MARK)]
    encoders = [name for name in stacks if name not in decoders]
    if len(encoders) != 1 or len(decoders) != 1:
        raise CheckpointError(
            f"this state dict has {len(encoders)} encoders and {len(decoders)} decoders whose tensors are named as in "
            f"nn.Transformer (…{ENCODER_MARK}, …{DECODER_MARK}); a recipe needs one of each"
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
    kinds = [kind for kind in FORMULAS if found.width % 2 == 0 and is_sinusoidal(table, _shape(kind, found.width))]
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
    """The tensors left with a row of the model's width for each of many things."""
    shapes = {name: as_table(state[name]).shape for name in found.rest if state[name].is_floating_point()}
    return [name for name, shape in shapes.items() if len(shape) == 2 and shape[1] == found.width and shape[0]]


def _best(names: list[str], hint: re.Pattern[str] | None) -> str:
    """The last name with the hint, else the first or, without a hint, the first at all."""
    hinted = [name for name in names if hint and hint.search(name)]
    return (hinted[-1:] or (names[-1:] if hint else names[:1]) or [""])[0]


def _bias(weight: str) -> str:
    return weight.removesuffix("weight") + "bias"


def _take(found: Inspection, *names: str) -> None:
    found.rest = [name for name in found.rest if name not in names]


def _shape(kind: Positions, width: int) -> Architecture:
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
