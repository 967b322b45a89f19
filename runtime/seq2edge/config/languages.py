"""Define the languages of a model, and where a multilingual model expects their tags."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from seq2edge.errors import UsageError

SourceTag = Literal["none", "before", "after"]
TargetTag = Literal["none", "first", "start", "source"]
MAX_SHOWN = 8  # languages in an error


@dataclass(frozen=True, kw_only=True)
class Languages:
    """The default languages of a model, and the tags of a multilingual one.

    ``codes`` maps each language to the id of its tag. The source tag comes before the text or after its end token. The
    target tag is the first token to generate, the start token, or comes before the source text.
    """

    source: str
    target: str
    codes: dict[str, int] = field(default_factory=dict)
    source_tag: SourceTag = "none"
    target_tag: TargetTag = "none"

    def __post_init__(self) -> None:
        tags = {"source": (self.source, self.source_tag), "target": (self.target, self.target_tag)}
        for side, (language, tag) in tags.items():
            if tag != "none" and language and language not in self.codes:
                raise ValueError(f"{side} is {language!r}, which has no tag in codes")
        if self.source_tag != "none" and not self.source:
            raise ValueError("source is empty, but a model with source language tags needs a default")


@dataclass(frozen=True, kw_only=True)
class Tags:
    """Token ids of language tags: around the source text, and at the start of the output."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    first: int | None = None
    start: int | None = None


def default_tags(languages: Languages) -> Tags:
    """Return the tags for the default languages."""
    return _tags(languages, languages.source, languages.target)


def resolve_tags(languages: Languages, source: str, target: str) -> Tags:
    """Return the tags for the languages of a call; an empty name is the default."""
    source = _resolve(languages, source, "source_lang", languages.source, tagged=languages.source_tag != "none")
    target = _resolve(languages, target, "target_lang", languages.target, tagged=languages.target_tag != "none")
    return _tags(languages, source, target)


def missing_target(codes: Mapping[str, int]) -> UsageError:
    return UsageError(
        f"this model translates into {len(codes)} languages: choose one with target_lang ({_list_some(codes)})"
    )


def _tags(languages: Languages, source: str, target: str) -> Tags:
    source_ids = (languages.codes[source],) if languages.source_tag != "none" else ()
    target_id = languages.codes[target] if target and languages.target_tag != "none" else None
    in_source = (target_id,) if languages.target_tag == "source" and target_id is not None else ()
    return Tags(
        before=(*in_source, *(source_ids if languages.source_tag == "before" else ())),
        after=source_ids if languages.source_tag == "after" else (),
        first=target_id if languages.target_tag == "first" else None,
        start=target_id if languages.target_tag == "start" else None,
    )


def _resolve(languages: Languages, name: str, option: str, default: str, *, tagged: bool) -> str:
    if name in ("", default) or (tagged and name in languages.codes):
        return name or default
    if not tagged:
        reason = f"this model has only {default!r}" if default else "this model has no tags for it"
        raise UsageError(f"{option} is {name!r}, but {reason}; leave it out")
    raise UsageError(f"{option} is {name!r}, which this model does not know; {_suggest(name, languages.codes)}")


def _suggest(name: str, codes: Mapping[str, int]) -> str:
    """List languages with a similar name or with the same first two letters."""
    from difflib import get_close_matches

    start = name.lower()[:2]
    similar = get_close_matches(name, codes, n=MAX_SHOWN, cutoff=0.6)
    similar += [code for code in codes if code.lower().startswith(start) and code not in similar]
    if similar:
        return f"similar ones are {', '.join(similar[:MAX_SHOWN])}"
    return f"it knows {len(codes)}, such as {_list_some(codes)}"


def _list_some(codes: Mapping[str, int]) -> str:
    return ", ".join(list(codes)[:MAX_SHOWN])
