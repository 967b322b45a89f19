"""``generation_config.json``, or what an old ``config.json`` says about generating; needs nothing."""

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from seq2edge.closed import ClosedError, read_closed, short
from seq2edge.generation import GenerationOptions
from seq2edge_export.hugging_face.folder import CONFIG, GENERATION, Settings
from seq2edge_export.json_object import read_object

OURS = {field.name: field.default for field in fields(GenerationOptions) if field.name != "seed"}
WITHOUT_EFFECT = {  # on the tokens of a search that is ours
    *("_from_model_config", "transformers_version", "bos_token_id"),
    *("use_cache", "cache_implementation", "cache_config", "max_cache_len", "prefill_chunk_size", "low_memory"),
    *("output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate"),
    *("compile_config", "disable_compile", "continuous_batching_config", "trust_remote_code"),
    *("is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"),
    *("assistant_lookbehind", "target_lookbehind", "max_matching_ngram_size", "assistant_ensemble_weight"),
}
NEUTRAL: Settings = {  # options that our search has not, and the value with which they do nothing
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "typical_p": 1.0,
    "min_p": 0.0,
    "top_h": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "exponential_decay_length_penalty": None,
    "begin_suppress_tokens": None,
    "sequence_bias": None,
    "guidance_scale": 1.0,
    "penalty_alpha": 0.0,
    "watermarking_config": None,
    "constraints": None,
    "force_words_ids": None,
    "stop_strings": None,
    "max_time": None,
    "token_healing": False,
    "remove_invalid_values": False,
    "dola_layers": None,
    "prompt_lookup_num_tokens": None,
    "assistant_early_exit": None,
    "speculation_type": None,
    "use_mtp": False,
}


def read_generation(folder: Path, content: Settings, problems: list[str]) -> GenerationOptions | None:
    """The defaults of the search; ``content`` is ``config.json`` with the family's defaults, which is older."""
    file = GENERATION if (folder / GENERATION).exists() else CONFIG
    found = read_object(folder / GENERATION) if file == GENERATION else _old(content)
    found = {name: value for name, value in found.items() if value is not None}
    problems += [
        f"{name} = {short(value)} in {file}, which the search has not"
        for name, value in found.items()
        if name not in OURS and name not in WITHOUT_EFFECT and value not in (NEUTRAL.get(name), [], {})
    ]
    try:
        return read_closed(GenerationOptions, _complete(found, content), where=file)
    except ClosedError as error:
        problems.append(str(error))
        return None


def _old(content: Settings) -> Settings:
    """What transformers takes over from a ``config.json`` of old."""
    found = {name: value for name, value in content.items() if name in OURS or name in NEUTRAL}
    if content.get("force_bos_token_to_be_generated"):
        found["forced_bos_token_id"] = content.get("bos_token_id")
    return found


def _complete(found: Settings, content: Settings) -> Settings:
    """Our options alone, with the ids that transformers falls back on; what is empty is off."""
    options = {name: value for name, value in found.items() if name in OURS and not _is_empty(name, value)}
    eos = found.get("eos_token_id", content.get("eos_token_id"))
    options["eos_token_id"] = eos
    options["pad_token_id"] = found.get("pad_token_id", content.get("pad_token_id", eos))
    starts = (found.get("decoder_start_token_id"), content.get("decoder_start_token_id"), found.get("bos_token_id"))
    options["decoder_start_token_id"] = next((start for start in starts if start is not None), eos)
    return options


def _is_empty(name: str, value: Any) -> bool:
    return value == [] and OURS[name] is not MISSING
