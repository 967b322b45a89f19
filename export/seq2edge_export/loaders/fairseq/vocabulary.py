"""How a fairseq model's text becomes tokens: its dictionaries, languages, subword codes and words.

fairseq is told at every run which tokenizer and subwords to use, and many checkpoints do not say. Then the dictionary
does: its tokens begin with ``▁`` if SentencePiece cut them, end in ``@@`` if byte-pair codes did, and are written
``&apos;`` if Moses made the words.

A dictionary of fairseq, ``dict.<language>.txt``: a token and how often it occurred a line.

Four marks stand before the first line and are not in the file.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from seq2edge.config.tokenizer import Kind, Moses, SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError
from seq2edge.text.vocabularies.bpe import GOES_ON
from seq2edge.text.vocabularies.sentencepiece import SPACE
from seq2edge_export.loaders.fairseq.config import FairseqSettings, Values
from seq2edge_export.loaders.fairseq.files import FairseqFiles
from seq2edge_export.loaders.hugging_face.tokenizer import made_file

MARKS = ("<s>", "<pad>", "</s>", "<unk>")
TOKENS = SpecialTokens(bos=0, pad=1, eos=2, unk=3)
AGAIN = "#fairseq:overwrite"  # behind a token that has a number already: it gets another


def read_dictionary(path: Path) -> dict[str, int]:
    """The number of every token, marks included."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 ({error})") from None
    numbers = {mark: number for number, mark in enumerate(MARKS)}
    for place, line in enumerate(text.removesuffix("\n").split("\n")):
        token, again = _token(line, f"{path}, line {place + 1}")
        if token in numbers and not again:
            raise CheckpointError(f"{path}, line {place + 1}: {token!r} has the number {numbers[token]} already")
        numbers[token] = len(MARKS) + place
    return numbers


def count_tokens(numbers: dict[str, int]) -> int:
    return max(numbers.values()) + 1


def _token(line: str, where: str) -> tuple[str, bool]:
    """The token of a line, and whether it may be there a second time."""
    rest = line.rstrip()
    again = rest.endswith(f" {AGAIN}")
    token, space, count = rest.removesuffix(f" {AGAIN}").rpartition(" ")
    if not space or not count.lstrip("-").isdecimal():
        raise CheckpointError(f"{where}: {line[:60]!r} is not a token and a number")
    return token, again


ESCAPED, DASH = {"&apos;", "&quot;", "&amp;"}, "@-@"  # of Moses
TOKENIZERS = (None, "space", "moses")
SUBWORDS: dict[str, Kind] = {"sentencepiece": "pieces", "subword_nmt": "bpe", "fastbpe": "bpe"}
WANTED: dict[Kind, tuple[str, str]] = {  # what a dictionary holds, and how a file for it is mostly named
    "bpe": ("byte pairs", "bpecodes"),
    "pieces": ("pieces of SentencePiece", "sentencepiece.bpe.model"),
}
Numbers = dict[str, int]


@dataclass(frozen=True)
class FairseqText:
    """Both languages, the sizes of their dictionaries, and the rules by the paths of the files."""

    source: str
    target: str
    sizes: tuple[int, int]
    rules: Tokenization


def read_text(settings: FairseqSettings, files: FairseqFiles, rows: tuple[int, int]) -> FairseqText:
    """What the checkpoint says, else what the dictionaries show; ``rows`` are those of its embeddings."""
    known = {language: read_dictionary(path) for language, path in files.dictionaries.items()}
    if not known:
        raise CheckpointError(f"there is no dictionary (dict.<language>.txt) beside {files.model.name}; copy it there")
    source, target = _languages(settings, files, known, rows)
    problems = list(_unsupported(settings))
    if problems:
        raise CheckpointError("; ".join(problems))
    return FairseqText(
        source=source,
        target=target,
        sizes=(count_tokens(known[source]), count_tokens(known[target])),
        rules=_rules(settings, files, source, target, known),
    )


def _unsupported(settings: FairseqSettings) -> Iterator[str]:
    tokenizer, subwords = settings.tokenizer.get("_name"), settings.bpe.get("_name")
    if tokenizer not in TOKENIZERS:
        yield f"the tokenizer {tokenizer}"
    if subwords not in (None, *SUBWORDS):
        yield f"subwords of {subwords}"
    separator = settings.bpe.get("bpe_separator")
    if subwords == "subword_nmt" and separator not in (None, GOES_ON):
        yield f"subwords that end in {separator} instead of {GOES_ON}"


def _languages(
    settings: FairseqSettings, files: FairseqFiles, known: dict[str, Numbers], rows: tuple[int, int]
) -> tuple[str, str]:
    source, target = settings.task.get("source_lang"), settings.task.get("target_lang")
    if isinstance(source, str) and isinstance(target, str):
        missing = [f"dict.{language}.txt" for language in (source, target) if language not in known]
        if missing:
            raise CheckpointError(f"there is no {' nor '.join(missing)} beside {files.model.name}; copy it there")
        return source, target
    pairs = [(first, second) for first in known for second in known if first != second]
    named = [pair for pair in pairs if _is_named(pair, settings, files)]
    fitting = [pair for pair in pairs if rows == (count_tokens(known[pair[0]]), count_tokens(known[pair[1]]))]
    for found in (named, fitting):
        if len(found) == 1:
            return found[0]
    raise CheckpointError(
        f"the checkpoint does not say which of the languages {', '.join(known)} is the source; "
        "put the dictionaries into a folder named source-target, such as de-en"
    )


def _is_named(pair: tuple[str, str], settings: FairseqSettings, files: FairseqFiles) -> bool:
    """Whether the data of training or a folder of the files is named after a pair."""
    data = settings.task.get("data")
    folders = [str(data), *(str(path.resolve().parent) for path in files.dictionaries.values())]
    between = re.compile(rf"(?<![^\W_]){re.escape(pair[0])}[-_]{re.escape(pair[1])}(?![^\W_])")
    return any(between.search(folder) for folder in folders)


def _rules(
    settings: FairseqSettings, files: FairseqFiles, source: str, target: str, known: dict[str, Numbers]
) -> Tokenization:
    name = settings.bpe.get("_name")
    kind = SUBWORDS[name] if name else _kind({*known[source], *known[target]})
    paths = {language: str(made_file(f"{language}.json", known[language])) for language in (source, target)}
    if known[source] == known[target]:
        paths[target] = paths[source]
    codes = {"bpe": files.codes, "pieces": files.pieces}.get(kind, [])
    said = settings.bpe.get("bpe_codes" if kind == "bpe" else "sentencepiece_model")
    source_codes, target_codes = _codes(kind, codes, said, (source, target)) if kind != "words" else ("", "")
    return Tokenization(
        source=paths[source],
        target=paths[target],
        kind=kind,
        source_codes=source_codes,
        target_codes=target_codes,
        split="blanks" if kind == "bpe" else "spaces",
        plain_spaces=settings.tokenizer.get("_name") == "space",
        moses=_moses(settings.tokenizer, source, target, {*known[source], *known[target]}),
    )


def _kind(tokens: set[str]) -> Kind:
    if any(token.startswith(SPACE) for token in tokens):
        return "pieces"
    return "bpe" if any(token.endswith(GOES_ON) and token != GOES_ON for token in tokens) else "words"


def _codes(kind: Kind, found: Sequence[Path], said: object, languages: tuple[str, str]) -> tuple[str, str]:
    """The one file there is, that of the name which was said, or one for each side."""
    what, name = WANTED[kind]
    named = [path for path in found if isinstance(said, str) and path.name == Path(said).name]
    chosen = named if len(named) == 1 else list(found)
    if not chosen:
        raise CheckpointError(f"there are {what} in the dictionary, but no file of them; copy it there as {name}")
    sides = [[path for path in chosen if language in re.split(r"[._-]", path.name)] for language in languages]
    source, target = (side if len(side) == 1 else chosen for side in sides)
    if len(source) > 1 or len(target) > 1:
        names = ", ".join(path.name for path in chosen)
        raise CheckpointError(f"of {names}, leave the one that cuts text into {what}")
    return str(source[0]), str(target[0])


def _moses(settings: Values, source: str, target: str, tokens: set[str]) -> Moses | None:
    name = settings.get("_name")
    if name != "moses" and (name is not None or tokens.isdisjoint(ESCAPED)):
        return None
    if name is None:
        return Moses(source_language=source, target_language=target, dash_splits=DASH in tokens)
    return Moses(
        source_language=_first(settings, source, "moses_source_lang", "source_lang"),
        target_language=_first(settings, target, "moses_target_lang", "target_lang"),
        dash_splits=not settings.get("moses_no_dash_splits"),
        escape=not settings.get("moses_no_escape"),
    )


def _first(settings: Values, default: str, *names: str) -> str:
    return next((str(settings[name]) for name in names if settings.get(name)), default)
