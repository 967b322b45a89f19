"""The t5 family: T5, FLAN-T5 and mT5 as Hugging Face folders; needs torch, safetensors and sentencepiece."""

from pathlib import Path

import torch

from seq2edge.architecture import Architecture
from seq2edge.errors import CheckpointError
from seq2edge.generation import GenerationOptions
from seq2edge.tokenization import Tokenization
from seq2edge.tokens import SpecialTokens
from seq2edge_export.checkpoint import FORMAT_VERSION, Checkpoint, CheckpointConfig
from seq2edge_export.hugging_face_folder import (
    CONFIG,
    Settings,
    model_type,
    read_generation,
    read_settings,
    read_weights,
)
from seq2edge_export.model import Transformer
from seq2edge_export.placing import fill, misfit
from seq2edge_export.state_dict import StateDict
from seq2edge_export.t5.places import LEFT_OUT, places
from seq2edge_export.t5.shape import BY_TYPE, setting_problems, shape_of, with_defaults
from seq2edge_export.t5.text import PIECES, count_sentinels, special_tokens, task_of


def recognises(path: Path) -> bool:
    return model_type(path) in (*BY_TYPE, "umt5")


def load_t5(path: Path) -> Checkpoint:
    """Read a folder of transformers; whatever our model cannot do is in one error."""
    if model_type(path) not in BY_TYPE:
        raise CheckpointError(f"{path} is not T5 or mT5 (umt5 has a relative bias in every layer; ours has one)")
    config, state = with_defaults(read_settings(path / CONFIG)), read_weights(path)
    problems = setting_problems(config)
    tokens = special_tokens(path, config, problems)
    generation = read_generation(path, config, _ids(config, tokens), problems)
    sentinels = count_sentinels(path, problems)
    shape = _shape(config, state, generation, problems)
    if problems or tokens is None or generation is None or shape is None:
        raise CheckpointError(f"{path} has what this family cannot express: {'; '.join(problems)}")
    model = _build(shape, state)
    rules = Tokenization(source=PIECES, target=PIECES, kind="t5", sentinels=sentinels, source_prefix=task_of(config)[0])
    return Checkpoint("t5", _config(config, shape, tokens), generation, model, rules, {PIECES: path / PIECES})


def _ids(config: Settings, tokens: SpecialTokens | None) -> Settings:
    """The special tokens of the search where generation_config.json gives none."""
    known = {} if tokens is None else {"pad_token_id": tokens.pad, "decoder_start_token_id": tokens.bos}
    eos = config.get("eos_token_id")
    return {"pad_token_id": 0, "decoder_start_token_id": 0, **known, "eos_token_id": 1 if eos is None else eos}


def _shape(
    config: Settings, state: StateDict, generation: GenerationOptions | None, problems: list[str]
) -> Architecture | None:
    """The shape, if there can be one; what tensors do not fit it is added to ``problems``."""
    if problems:
        return None
    try:
        shape = shape_of(config, state, longest=generation.longest(1) - 1 if generation else 1)
    except (TypeError, ValueError) as error:
        problems.append(f"{CONFIG} describes no Transformer: {error}")
        return None
    problems += _tensor_problems(shape, state)
    return shape


def _tensor_problems(shape: Architecture, state: StateDict) -> list[str]:
    found = places(shape, state)
    names = {place.theirs for place in found}
    problems = [f"{name} is missing" for name in sorted(names - state.keys())]
    problems += [f"{name} has no place in it" for name in state if name not in names | LEFT_OUT]
    with torch.device("meta"):  # shapes alone
        model = Transformer(shape)
    return problems + [
        text for place in found if place.theirs in state if (text := misfit(place, state[place.theirs], model))
    ]


def _build(shape: Architecture, state: StateDict) -> Transformer:
    model = Transformer(shape)
    fill(model, places(shape, state), state)
    return model.eval()


def _config(config: Settings, shape: Architecture, tokens: SpecialTokens) -> CheckpointConfig:
    _, source, target = task_of(config)
    return CheckpointConfig(
        format_version=FORMAT_VERSION,
        architecture=shape,
        tokens=tokens,
        source_tokenizer=PIECES,
        target_tokenizer=PIECES,
        source_language=source,
        target_language=target,
    )
