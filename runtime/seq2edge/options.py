"""Resolve the options of a call against the defaults and limits of the bundle."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Manifest
from seq2edge.config.generation import GenerationOptions, as_ids
from seq2edge.config.languages import Tags, missing_target, resolve_tags
from seq2edge.config.schema import read_fields
from seq2edge.config.text import TextOptions, check_heads
from seq2edge.errors import BundleError, UsageError

ID_OPTIONS = (
    *("decoder_start_token_id", "eos_token_id", "pad_token_id"),
    *("forced_bos_token_id", "forced_eos_token_id", "suppress_tokens"),
)
GENERATION = {field.name for field in fields(GenerationOptions)}
TEXT = {field.name for field in fields(TextOptions)}


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """All options of one call."""

    generation: GenerationOptions
    text: TextOptions
    tags: Tags


def resolve_options(changes: Mapping[str, Any], manifest: Manifest) -> CallOptions:
    """Apply a call's options to the bundle's defaults, and check them."""
    unknown = sorted(changes.keys() - GENERATION - TEXT)
    if unknown:
        raise UsageError(f"unknown option {unknown[0]!r}; GenerationOptions and TextOptions list the options")
    try:
        text = TextOptions(**_only(changes, TextOptions))
        text = replace(text, split=manifest.split) if text.split == "auto" else text
        tags = resolve_tags(manifest.languages, text.source_lang, text.target_lang)
        generation = replace(
            manifest.generation, **(_forced(tags) | _override_lengths(_only(changes, GenerationOptions)))
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    _check_length(generation, manifest.max_positions)
    _check_ids(generation, manifest)
    _check_beams(generation, manifest)
    _check_attention(text, manifest)
    _check_target(generation, manifest)
    return CallOptions(generation=generation, text=text, tags=tags)


def _only(changes: Mapping[str, Any], settings: type) -> dict[str, Any]:
    names = {field.name for field in fields(settings)}
    return read_fields(settings, {name: _to_python(value) for name, value in changes.items() if name in names})


def _to_python(value: Any) -> Any:
    """Convert numpy numbers to Python numbers, also in lists."""
    if isinstance(value, list | tuple):
        return tuple(map(_to_python, value))
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def _override_lengths(changes: dict[str, Any]) -> dict[str, Any]:
    """Let a length given by the call override the bundle's number of new tokens, which would take precedence."""
    for length, new_tokens in (("max_length", "max_new_tokens"), ("min_length", "min_new_tokens")):
        if changes.get(length) is None:
            continue
        if changes.get(new_tokens) is not None:
            raise UsageError(f"{length} and {new_tokens} were both given; give only one of them")
        changes[new_tokens] = None
    return changes


def _forced(tags: Tags) -> dict[str, int]:
    """Return the options that force the tag of the target language."""
    forced = {"forced_bos_token_id": tags.first, "decoder_start_token_id": tags.start}
    return {name: number for name, number in forced.items() if number is not None}


def _check_target(options: GenerationOptions, manifest: Manifest) -> None:
    """Raise an error if a multilingual model is not told the target language."""
    languages = manifest.languages
    named = {"first": options.forced_bos_token_id, "start": options.decoder_start_token_id}
    if languages.target_tag in named and named[languages.target_tag] not in languages.codes.values():
        raise missing_target(languages.codes)


def _check_length(options: GenerationOptions, longest: int) -> None:
    length = options.longest(1) - 1  # without the start token
    if not 1 <= length <= longest:
        raise UsageError(f"the maximum output length is {length} tokens, but the model generates 1 to {longest}")


def _check_attention(text: TextOptions, manifest: Manifest) -> None:
    if not text.attention:
        return
    if tensor_names.SCORER not in manifest.files:
        raise BundleError(
            "this bundle has no scorer graph, which attention needs: its module does not return attention weights"
        )
    if manifest.architecture is not None:
        check_heads(text.attention, layers=manifest.architecture.decoder_layers, heads=manifest.architecture.heads)


def _check_beams(options: GenerationOptions, manifest: Manifest) -> None:
    """Refuse more beams or samples than the first step has tokens for, which would only cost memory."""
    if manifest.architecture is None:
        return
    for name in ("num_beams", "num_return_sequences"):
        count, limit = getattr(options, name), manifest.architecture.target_vocabulary
        if count > limit:
            raise UsageError(f"{name} is {count}, but the vocabulary of the model has {limit} tokens: use fewer")


def _check_ids(options: GenerationOptions, manifest: Manifest) -> None:
    if manifest.architecture is None:
        return
    highest = manifest.architecture.target_vocabulary - 1
    named = {name: as_ids(getattr(options, name)) for name in ID_OPTIONS}
    named |= {"bad_words_ids": tuple(token for word in options.bad_words_ids or () for token in word)}
    for name, ids in named.items():
        if any(token > highest for token in ids):
            raise UsageError(f"{name} is {max(ids)}, but the token ids of the model are 0 to {highest}")
