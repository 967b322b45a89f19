"""The languages of a model, and where a model for many has their tags."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from seq2edge.errors import UsageError

SourceTag = Literal["none", "before", "after"]
TargetTag = Literal["none", "first", "start", "source"]
SHOWN = 8  # languages in an error


@dataclass(frozen=True, kw_only=True)
class Languages:
    """What a model translates from and into, unless a call says otherwise.

    A model for many languages has a tag for each, whose id is in ``codes``. That of the source stands before the text
    or after its end mark; that of the target is the first token to make, the start token, or stands before the source.
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
            raise ValueError("source is empty, but a model with tags for source languages needs one to begin with")


@dataclass(frozen=True, kw_only=True)
class Tags:
    """The ids that two languages put around a source text, and before an output."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    first: int | None = None
    start: int | None = None


def default_tags(languages: Languages) -> Tags:
    """The tags where a call names no language."""
    return _tags(languages, languages.source, languages.target)


def resolve_tags(languages: Languages, source: str, target: str) -> Tags:
    """The tags of the languages that a call names; empty is the model's own."""
    source = _known(languages, source, "source_lang", languages.source, tagged=languages.source_tag != "none")
    target = _known(languages, target, "target_lang", languages.target, tagged=languages.target_tag != "none")
    return _tags(languages, source, target)


def missing_target(codes: Mapping[str, int]) -> UsageError:
    return UsageError(f"this model translates into {len(codes)} languages: name one with target_lang ({_some(codes)})")


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


def _known(languages: Languages, asked: str, option: str, own: str, *, tagged: bool) -> str:
    if asked in ("", own) or (tagged and asked in languages.codes):
        return asked or own
    if not tagged:
        what = f"this model has {own!r} alone" if own else "this model has no tags for it"
        raise UsageError(f"{option} is {asked!r}, but {what}; leave it out")
    raise UsageError(f"{option} is {asked!r}, which this model does not know; {_alike(asked, languages.codes)}")


def _alike(asked: str, codes: Mapping[str, int]) -> str:
    """Those of the same letters, however they are written, and those that look alike."""
    from difflib import get_close_matches

    begin = asked.lower()[:2]
    near = get_close_matches(asked, codes, n=SHOWN, cutoff=0.6)
    near += [code for code in codes if code.lower().startswith(begin) and code not in near]
    if near:
        return f"similar ones are {', '.join(near[:SHOWN])}"
    return f"it knows {len(codes)}, such as {_some(codes)}"


def _some(codes: Mapping[str, int]) -> str:
    return ", ".join(list(codes)[:SHOWN])
