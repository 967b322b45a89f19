"""What a checkpoint holds, in one form for both frameworks; needs torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2edge.errors import CheckpointError
from seq2edge_export.opennmt.layout import Layout
from seq2edge_export.opennmt.settings import Options, Settings
from seq2edge_export.state_dict import StateDict

UNK, PAD, BOS, EOS = "<unk>", "<blank>", "<s>", "</s>"  # unless a vocabulary of eole says otherwise


@dataclass(frozen=True, kw_only=True)
class Words:
    """The tokens of both sides in the order of their ids, and those with a meaning."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    start: str
    pad: str
    eos: str


@dataclass(frozen=True, kw_only=True)
class Given:
    """A checkpoint as it was found; ``problems`` are what its settings ask for and our Transformer has not."""

    path: Path
    folder: Path  # with the files that belong to it
    layout: Layout
    settings: Settings
    state: StateDict
    words: Words
    transforms: Mapping[str, Options]  # what is done to a text, in this order, with the options of each
    one_cutter: bool  # the target is cut like the source, whatever is said of it
    search: Options  # how eole is told to search
    problems: list[str]


def words_of(content: Any, path: Path) -> Words:
    """The vocabularies as both frameworks write them; eole's may name marks of its own."""
    named: Options = content if isinstance(content, dict) else {}
    source, target = (_tokens(named.get(side), path) for side in ("src", "tgt"))
    specials = named.get("specials")
    marks: Options = specials if isinstance(specials, dict) else {}
    return Words(
        source=source,
        target=target,
        start=str(named.get("decoder_start_token", BOS)),
        pad=str(marks.get("pad_token", PAD)),
        eos=str(marks.get("eos_token", EOS)),
    )


def transforms_of(options: Options) -> tuple[str, ...]:
    """What is done to a text before it is translated: as in validation, or as in training where nothing is said."""
    found = _names(options)
    corpora = options.get("data")
    if not found and isinstance(corpora, dict):
        found = [name for corpus in corpora.values() if isinstance(corpus, dict) for name in _names(corpus)]
    return tuple(dict.fromkeys(found))


def _names(options: Options) -> list[str]:
    found = options.get("transforms")
    return [str(name) for name in found] if isinstance(found, list) else []


def _tokens(found: Any, path: Path) -> tuple[str, ...]:
    if not isinstance(found, list) or not found or not all(isinstance(token, str) for token in found):
        raise CheckpointError(f"{path} has no vocabularies named src and tgt, each a list of tokens")
    return tuple(found)
