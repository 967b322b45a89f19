"""The files of a Hugging Face model folder: settings, weights and defaults of the search; needs torch and safetensors.

::

    folder/
    ├── config.json              the kind of model and its sizes
    ├── generation_config.json   defaults of the search; in old folders they are in config.json
    ├── model.safetensors        weights, or pytorch_model.bin, or either in shards beside an .index.json
    └── tokenizer files
"""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from seq2edge.closed import ClosedError, read_closed
from seq2edge.errors import CheckpointError
from seq2edge.generation import GenerationOptions
from seq2edge_export.state_dict import StateDict, read_state_dict

CONFIG, GENERATION, TOKENIZER_CONFIG = "config.json", "generation_config.json", "tokenizer_config.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
Settings = dict[str, Any]

OPTIONS = {field.name for field in fields(GenerationOptions)} - {"seed"}
# What decides nothing about tokens, or belongs to what GenerationOptions already refuses.
WITHOUT_EFFECT = {
    *(
        "bos_token_id",
        "use_cache",
        "cache_implementation",
        "cache_config",
        "transformers_version",
        "_from_model_config",
    ),
    *("output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate"),
    *(
        "max_time",
        "low_memory",
        "is_assistant",
        "compile_config",
        "disable_compile",
        "token_healing",
        "trust_remote_code",
    ),
}
# Options that the search has not, with the values at which they do nothing.
NEUTRAL: Settings = {
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0,
    "diversity_penalty": 0.0,
    "num_beam_groups": 1,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "renormalize_logits": False,
    "remove_invalid_values": False,
    "guidance_scale": 1.0,
}


def model_type(path: Path) -> str:
    """What ``config.json`` says the model is; nothing if this is no such folder."""
    try:
        content = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    found = content.get("model_type") if isinstance(content, dict) else None
    return found if isinstance(found, str) else ""


def read_settings(path: Path) -> Settings:
    """The JSON object in a file; a file that is not there says nothing."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON ({error})") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} should hold a JSON object, not {type(content).__name__}")
    return content


def read_weights(folder: Path) -> StateDict:
    """All tensors by name, from one file or from shards."""
    for name in WEIGHTS:
        if (folder / name).is_file():
            return read_state_dict(folder / name)
        index = folder / f"{name}.index.json"
        if index.is_file():
            return _read_shards(index)
    raise CheckpointError(f"{folder} has no weights: it should hold {' or '.join(WEIGHTS)}, or their shards")


def read_generation(folder: Path, config: Settings, ids: Settings, problems: list[str]) -> GenerationOptions | None:
    """The defaults of the search; what it cannot do is added to ``problems``.

    ``ids`` are the special tokens for where none are given.
    """
    content = read_settings(folder / GENERATION)
    where = GENERATION if content else CONFIG
    given = content or {name: config[name] for name in (*OPTIONS, *NEUTRAL) if name in config}
    given = {name: value for name, value in given.items() if value is not None and name not in WITHOUT_EFFECT}
    for name, value in given.items():
        if name not in OPTIONS and (name not in NEUTRAL or value != NEUTRAL[name]):
            problems.append(f"{where} sets {name} to {value!r}, which the search has not")
    known = {name: value for name, value in given.items() if name in OPTIONS}
    try:
        return read_closed(GenerationOptions, ids | known, where=where)
    except ClosedError as error:
        problems.append(str(error))
        return None


def _read_shards(index: Path) -> StateDict:
    places = read_settings(index).get("weight_map")
    if not isinstance(places, dict) or not places or not all(map(_is_plain, places.values())):
        raise CheckpointError(f"{index} should name a file of this folder for each tensor under 'weight_map'")
    state: StateDict = {}
    for name in dict.fromkeys(places.values()):
        state |= read_state_dict(index.parent / name)
    missing = sorted(places.keys() - state.keys())
    if missing:
        raise CheckpointError(f"the shards of {index} lack {', '.join(missing)}")
    return state


def _is_plain(name: object) -> bool:
    return isinstance(name, str) and Path(name).name == name
