"""What a call asks for: its options, checked against what the model can do; needs nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from seq2edge.bundle import Manifest
from seq2edge.errors import UsageError
from seq2edge.generation import GenerationOptions, as_ids
from seq2edge.languages import Tags, asked_tags, missing_target
from seq2edge.text_options import TextOptions

ID_OPTIONS = ("decoder_start_token_id", "eos_token_id", "forced_bos_token_id", "forced_eos_token_id", "suppress_tokens")
GENERATION = {field.name for field in fields(GenerationOptions)}
TEXT = {field.name for field in fields(TextOptions)}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """All options of one call."""

    generation: GenerationOptions
    text: TextOptions
    tags: Tags


def asked(changes: Mapping[str, Any], manifest: Manifest) -> Asked:
    """The options of the bundle with these changes; what cannot be is an error."""
    unknown = sorted(changes.keys() - GENERATION - TEXT)
    if unknown:
        raise UsageError(f"there is no option {unknown[0]!r}; GenerationOptions and TextOptions name those there are")
    try:
        text = TextOptions(**_only(changes, TEXT))
        tags = asked_tags(manifest.languages, text.source_lang, text.target_lang)
        generation = replace(manifest.generation, **(_forced(tags) | _only(changes, GENERATION)))
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    _check_length(generation, manifest.max_positions)
    _check_ids(generation, manifest)
    _check_target(generation, manifest)
    return Asked(generation=generation, text=text, tags=tags)


def _only(changes: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if name in names}


def _forced(tags: Tags) -> dict[str, int]:
    """How the tag of the target language is made: by options of the search."""
    found = {"forced_bos_token_id": tags.first, "decoder_start_token_id": tags.start}
    return {name: number for name, number in found.items() if number is not None}


def _check_target(options: GenerationOptions, manifest: Manifest) -> None:
    """Refuse to guess what to translate into."""
    languages = manifest.languages
    named = {"first": options.forced_bos_token_id, "start": options.decoder_start_token_id}
    if languages.target_tag in named and named[languages.target_tag] not in languages.codes.values():
        raise missing_target(languages.codes)


def _check_length(options: GenerationOptions, longest: int) -> None:
    wanted = options.longest(1) - 1  # tokens behind the start
    if not 1 <= wanted <= longest:
        raise UsageError(f"output of {wanted} tokens was asked for, but the model makes 1 to {longest}")


def _check_ids(options: GenerationOptions, manifest: Manifest) -> None:
    if manifest.architecture is None:
        return
    highest = manifest.architecture.target_vocabulary - 1
    named = {name: as_ids(getattr(options, name)) for name in ID_OPTIONS}
    named |= {"bad_words_ids": tuple(token for word in options.bad_words_ids or () for token in word)}
    for name, ids in named.items():
        if any(token > highest for token in ids):
            raise UsageError(f"{name} is {max(ids)}, but the ids of the model are 0 to {highest}")
