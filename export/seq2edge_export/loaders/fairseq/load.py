"""The fairseq family: checkpoints of fairseq's ``transformer`` with their dictionaries.

The one Transformer from the settings and tensors of a fairseq model.

fairseq's search as options of ours.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2edge.config.architecture import Architecture
from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import CheckpointError
from seq2edge_export.checkpoint import FORMAT_VERSION, Checkpoint, CheckpointConfig
from seq2edge_export.loaders.fairseq.config import (
    ACTIVATIONS,
    FairseqModelSettings,
    FairseqSettings,
    read_settings,
    unsupported,
)
from seq2edge_export.loaders.fairseq.files import FairseqFiles, find_files, find_model, looks_like_fairseq, read_pickled
from seq2edge_export.loaders.fairseq.vocabulary import TOKENS, FairseqText, read_text
from seq2edge_export.loaders.fairseq.weights import final_norms, read_tensors, upgraded
from seq2edge_export.loaders.hugging_face.weights import (
    POSITIONS,
    Embeddings,
    Tables,
    fill_positions,
    same,
    stretched,
    weight_map,
)
from seq2edge_export.loaders.recipe.config import count_layers
from seq2edge_export.loaders.recipe.files import tokenizer_files
from seq2edge_export.loaders.state_dict import StateDict
from seq2edge_export.loaders.weight_map import WeightMapping, fill, shape_mismatch
from seq2edge_export.model.transformer import Transformer

SOURCE, TARGET = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
OUTPUT = "model.decoder.output_projection.weight"
FIRST_ROW = TOKENS.pad + 1  # of position tables: those before belong to padding
MOST_POSITIONS = 100_000  # of fairseq's formula


def build(path: Path, settings: FairseqModelSettings, state: StateDict, sizes: tuple[int, int]) -> Transformer:
    """The model itself, every tensor in its place; ``sizes`` are those of the dictionaries."""
    _check_layers(path, settings, state)
    norms, state = final_norms(state), upgraded(state)
    embeddings = _embeddings(settings, state)
    shape = _shape(
        path, settings, embeddings, sizes, _positions(settings, state), settings.norm_first and norms["encoder"]
    )
    found = [*embeddings.weight_map(), *weight_map(shape)]
    problems = _tensor_problems(settings, state, found, _without_content(path, shape))
    if settings.norm_first and norms["encoder"] != norms["decoder"]:
        problems.append("encoder and decoder are of versions of which one alone has a final norm")
    if problems:
        raise CheckpointError(f"{path} does not hold the Transformer that it describes: {'; '.join(problems)}")
    model = Transformer(shape)
    fill(model, found, state)
    fill_positions(model, _tables(settings, state, shape))
    return model.eval()


def _check_layers(path: Path, settings: FairseqModelSettings, state: StateDict) -> None:
    """Before anything is made of them: there may be said to be any number."""
    wanted = {"encoder": settings.encoder_layers, "decoder": settings.decoder_layers}
    found = {side: count_layers(state, side) for side in wanted}
    problems = [f"its {side} has {found[side]} layers instead of {wanted[side]}" for side in wanted]
    problems = [text for text, side in zip(problems, wanted, strict=True) if found[side] != wanted[side]]
    if problems:
        raise CheckpointError(f"{path} does not hold the Transformer that it describes: {'; '.join(problems)}")


def _embeddings(settings: FairseqModelSettings, state: StateDict) -> Embeddings:
    """What the settings share, or what is equal, is one."""
    source = SOURCE
    target = source if settings.share_all_embeddings or same(state, source, TARGET) else TARGET
    tied = settings.share_all_embeddings or settings.share_decoder_input_output_embed
    return Embeddings(source, target, target if tied or same(state, OUTPUT, target) else OUTPUT, bias=False)


def _positions(settings: FairseqModelSettings, state: StateDict) -> int:
    """How many there are on both sides; a table of the file that is no table counts as one of the right size."""
    most = {"encoder": settings.max_source_positions, "decoder": settings.max_target_positions}
    for side in _learned(settings):
        table = state.get(POSITIONS[side])
        if table is not None and table.dim() == 2 and len(table) > FIRST_ROW:
            most[side] = len(table) - FIRST_ROW
    return min(*most.values(), MOST_POSITIONS)


def _tables(settings: FairseqModelSettings, state: StateDict, shape: Architecture) -> Tables:
    """The rows of both position tables that are used; none if there are no positions."""
    if settings.no_token_positional_embeddings:
        return {}
    learned = _learned(settings)
    return {
        side: state[name][FIRST_ROW : FIRST_ROW + shape.max_positions]
        if side in learned
        else stretched(shape.width, first=FIRST_ROW, count=shape.max_positions)
        for side, name in POSITIONS.items()
    }


def _learned(settings: FairseqModelSettings) -> list[str]:
    """The sides whose positions are in the file."""
    if settings.no_token_positional_embeddings:
        return []
    return [side for side in POSITIONS if getattr(settings, f"{side}_learned_pos")]


def _table_problem(name: str, table: Tensor | None, width: int) -> str:
    if table is None:
        return f"{name} is missing"
    if table.dim() != 2 or table.shape[1] != width or len(table) <= FIRST_ROW:
        return f"{name} has the shape {tuple(table.shape)} instead of {FIRST_ROW} or more rows of {width}"
    is_good = table.is_floating_point() and torch.isfinite(table).all()
    return "" if is_good else f"{name} holds NaN, infinity or no floating-point numbers"


def _shape(
    path: Path,
    settings: FairseqModelSettings,
    embeddings: Embeddings,
    sizes: tuple[int, int],
    positions: int,
    final_norm: bool,
) -> Architecture:
    source, target = sizes
    try:
        return Architecture(
            source_vocabulary=source,
            target_vocabulary=target,
            width=settings.encoder_embed_dim,
            heads=settings.encoder_attention_heads,
            encoder_layers=settings.encoder_layers,
            decoder_layers=settings.decoder_layers,
            feed_forward=settings.encoder_ffn_embed_dim,
            activation=ACTIVATIONS[settings.activation_fn],
            norm_first=settings.norm_first,
            final_norm=final_norm,
            embedding_norm=settings.layernorm_embedding,
            positions="none" if settings.no_token_positional_embeddings else "learned",  # be it by a formula
            max_positions=positions,
            joint_vocabulary=embeddings.joint,
            tied_output=embeddings.tied,
            embedding_scale=1.0 if settings.no_scale_embedding else None,
        )
    except ValueError as error:
        raise CheckpointError(f"the settings and dictionaries of {path} do not fit together: {error}") from None


def _without_content(path: Path, shape: Architecture) -> Transformer:
    """The shapes alone: sizes that do not fit together could ask for any amount of memory."""
    try:
        with torch.device("meta"):
            return Transformer(shape)
    except RuntimeError:  # more than can be counted
        raise CheckpointError(f"{path} does not hold the Transformer that it describes, which nothing could") from None


def _tensor_problems(
    settings: FairseqModelSettings, state: StateDict, found: list[WeightMapping], model: Transformer
) -> list[str]:
    names, learned = {place.theirs for place in found}, {POSITIONS[side] for side in _learned(settings)}
    problems = [f"{name} is missing" for name in sorted(names - state.keys())]
    surplus = [name for name in state if name not in {*names, *learned, SOURCE, TARGET, OUTPUT}]
    problems += [f"{name} has no place in it" for name in surplus]
    problems += [_table_problem(name, state.get(name), model.shape.width) for name in sorted(learned)]
    problems += [shape_mismatch(place, state[place.theirs], model) for place in found if place.theirs in state]
    return list(filter(None, problems))


# Defaults of fairseq-generate and of its hub interface.
BEAM, MOST_A, MOST_B, FEWEST = 5, 0.0, 200, 1
# Settings that are off unless they have another value -> what they are, for people.
OFF: dict[str, tuple[tuple[Any, ...], str]] = {
    "sampling": ((None, False), "sampling"),
    "diverse_beam_groups": ((None, -1, 0, 1), "groups of beams"),
    "diversity_rate": ((None, -1.0, 0.0), "diverse siblings"),
    "constraints": ((None,), "constraints"),
    "lm_path": ((None,), "a language model in the search"),
    "unkpen": ((None, 0.0), "a penalty for unknown words"),
    "match_source_len": ((None, False), "outputs as long as their source"),
    "temperature": ((None, 1.0), "a temperature"),
    "prefix_size": ((None, 0), "a prefix from the target"),
}


def unsupported_search(settings: dict[str, Any]) -> list[str]:
    """What the checkpoint's own settings ask for and ours cannot do."""
    return [f"{words} in the search ({name})" for name, (off, words) in OFF.items() if settings.get(name) not in off]


def read_generation(settings: dict[str, Any], positions: int) -> GenerationOptions:
    """The search that fairseq would do without further options, as far as the model's positions reach.

    fairseq stops when as many outputs have ended as there are beams, and never makes padding. Where an output becomes
    too long it makes the end mark, which would hide that it was cut, so that is left out. ``max_len_a`` is times the
    length of a source; here, of the longest that can be.
    """
    most = int(_number(settings, "max_len_a", MOST_A) * positions + _number(settings, "max_len_b", MOST_B))
    return GenerationOptions(
        decoder_start_token_id=TOKENS.eos,
        eos_token_id=TOKENS.eos,
        pad_token_id=TOKENS.pad,
        num_beams=int(_number(settings, "beam", BEAM)),
        min_new_tokens=min(int(_number(settings, "min_len", FEWEST)), positions),
        max_new_tokens=max(1, min(most + 1, positions)),
        length_penalty=0.0 if settings.get("unnormalized") else _number(settings, "lenpen", 1.0),
        early_stopping=True,
        no_repeat_ngram_size=int(_number(settings, "no_repeat_ngram_size", 0)),
        suppress_tokens=(TOKENS.pad,),
    )


def _number(settings: dict[str, Any], name: str, default: float) -> float:
    value = settings.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else default


EMBEDDINGS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")


def recognises(path: Path) -> bool:
    try:
        model = find_model(path)
    except CheckpointError:  # several, of which none is named
        model = next(path.glob("*.pt"), None)
    return model is not None and looks_like_fairseq(model)


def load_fairseq(path: Path) -> Checkpoint:
    """Read a checkpoint; whatever our model cannot do is in one error."""
    files = find_files(path)
    content = read_pickled(files.model)
    problems: list[str] = []
    settings, state = read_settings(content, files.model, problems), read_tensors(content, files.model)
    problems += [*unsupported(settings), *unsupported_search(settings.generation)]
    text = _text(settings, files, state, problems)
    if problems or text is None:
        raise CheckpointError(f"{files.model} has what this family cannot express: {'; '.join(problems)}")
    model = build(files.model, settings.model, state, text.sizes)
    rules, tokenizer = tokenizer_files(text.rules, files.model.parent)
    config = CheckpointConfig(
        format_version=FORMAT_VERSION,
        architecture=model.shape,
        tokens=TOKENS,
        source_tokenizer=rules.source,
        target_tokenizer=rules.target,
        source_language=text.source,
        target_language=text.target,
    )
    generation = read_generation(settings.generation, model.shape.max_positions)
    return Checkpoint("fairseq", config, generation, model, rules, tokenizer)


def _text(settings: FairseqSettings, files: FairseqFiles, state: StateDict, problems: list[str]) -> FairseqText | None:
    """How it reads and writes; what is wrong with it is added to ``problems``."""
    source, target = (len(state[name]) if name in state and state[name].dim() else 0 for name in EMBEDDINGS)
    try:
        return read_text(settings, files, (source, target or source))
    except CheckpointError as error:
        problems.append(str(error))
        return None
