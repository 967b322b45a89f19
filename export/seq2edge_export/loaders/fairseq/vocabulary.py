"""Read fairseq's dictionaries, and find out how a model tokenizes text.

fairseq takes the tokenizer and the subword model from its command line, so many checkpoints do not name them. Then the
tokens of the dictionary decide: they begin with ``▁`` for SentencePiece, end in ``@@`` for BPE, and contain ``&apos;``
for Moses.

A dictionary, ``dict.<language>.txt``, has one token and its count per line; four special tokens come before the first.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from seq2edge.config.tokenizer import Moses, Tokenization, VocabularyKind
from seq2edge.errors import CheckpointError, listed
from seq2edge.text.vocabularies.bpe import CONTINUATION
from seq2edge.text.vocabularies.sentencepiece import SPACE
from seq2edge_export.loaders.fairseq.config import FairseqSettings, Values
from seq2edge_export.loaders.fairseq.files import FairseqFiles
from seq2edge_export.loaders.tokenizer_files import TokenizerChoice, write_temporary_json

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
DUPLICATE = "#fairseq:overwrite"  # marks a token that replaces an earlier one
ESCAPED, DASH = {"&apos;", "&quot;", "&amp;"}, "@-@"  # Moses
TOKENIZERS = (None, "space", "moses")
SUBWORDS: dict[str, VocabularyKind] = {"sentencepiece": "pieces", "subword_nmt": "bpe", "fastbpe": "bpe"}
CODES: dict[VocabularyKind, tuple[str, str]] = {  # tokens of the dictionary, and the usual name of their file
    "bpe": ("byte pairs", "bpecodes"),
    "pieces": ("pieces of SentencePiece", "sentencepiece.bpe.model"),
}
Ids = dict[str, int]


@dataclass(frozen=True)
class FairseqText:
    """Both languages, the sizes of their dictionaries, and the tokenization with the paths of its files."""

    source: str
    target: str
    sizes: tuple[int, int]
    tokenization: Tokenization


def read_text(
    settings: FairseqSettings, files: FairseqFiles, rows: tuple[int, int], choice: TokenizerChoice | None = None
) -> FairseqText:
    """Read what the checkpoint names, or else the dictionaries show; ``rows`` are those of the embeddings."""
    dictionaries = {language: read_dictionary(path) for language, path in files.dictionaries.items()}
    if not dictionaries:
        raise CheckpointError(f"there is no dictionary (dict.<language>.txt) next to {files.model.name}; copy it there")
    source, target = _languages(settings, files, dictionaries, rows)
    problems = list(_unsupported(settings, choice))
    if problems:
        raise CheckpointError(listed(problems))
    return FairseqText(
        source=source,
        target=target,
        sizes=(_size(dictionaries[source]), _size(dictionaries[target])),
        tokenization=_tokenization(settings, files, source, target, dictionaries, choice),
    )


def read_dictionary(path: Path) -> Ids:
    """Return the id of every token, including special ones."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 ({error})") from None
    ids = {token: number for number, token in enumerate(SPECIAL)}
    for index, line in enumerate(text.removesuffix("\n").split("\n")):
        token, is_duplicate = _parse_line(line, f"{path}, line {index + 1}")
        if token in ids and not is_duplicate:
            raise CheckpointError(f"{path}, line {index + 1}: {token!r} already has the id {ids[token]}")
        ids[token] = len(SPECIAL) + index
    return ids


def _size(ids: Ids) -> int:
    return max(ids.values()) + 1


def _parse_line(line: str, where: str) -> tuple[str, bool]:
    """Return the token of a line, and whether it may occur a second time."""
    entry = line.rstrip()
    is_duplicate = entry.endswith(f" {DUPLICATE}")
    token, space, count = entry.removesuffix(f" {DUPLICATE}").rpartition(" ")
    if not space or not count.lstrip("-").isdecimal():
        raise CheckpointError(f"{where}: {line[:60]!r} is not a token and a count")
    return token, is_duplicate


def _unsupported(settings: FairseqSettings, choice: TokenizerChoice | None) -> Iterator[str]:
    tokenizer, subwords = settings.tokenizer.get("_name"), settings.bpe.get("_name")
    if tokenizer not in TOKENIZERS and not (choice and choice.is_plain):
        yield f"the tokenizer {tokenizer}"
    if choice:
        return
    if subwords not in (None, *SUBWORDS):
        yield f"subwords of {subwords}"
    separator = settings.bpe.get("bpe_separator")
    if subwords == "subword_nmt" and separator not in (None, CONTINUATION):
        yield f"subwords that end in {separator} instead of {CONTINUATION}"


def _languages(
    settings: FairseqSettings, files: FairseqFiles, dictionaries: dict[str, Ids], rows: tuple[int, int]
) -> tuple[str, str]:
    source, target = settings.task.get("source_lang"), settings.task.get("target_lang")
    if isinstance(source, str) and isinstance(target, str):
        missing = [f"dict.{language}.txt" for language in (source, target) if language not in dictionaries]
        if missing:
            raise CheckpointError(f"there is no {' nor '.join(missing)} next to {files.model.name}; copy it there")
        return source, target
    pairs = [(first, second) for first in dictionaries for second in dictionaries if first != second]
    named = [pair for pair in pairs if _is_named(pair, settings, files)]
    matching = [pair for pair in pairs if rows == (_size(dictionaries[pair[0]]), _size(dictionaries[pair[1]]))]
    for candidates in (named, matching):
        if len(candidates) == 1:
            return candidates[0]
    raise CheckpointError(
        f"the checkpoint does not name which of the languages {', '.join(dictionaries)} is the source; "
        "put the dictionaries into a folder named source-target, such as de-en"
    )


def _is_named(pair: tuple[str, str], settings: FairseqSettings, files: FairseqFiles) -> bool:
    """Return whether the training data or a folder of the files is named after a language pair."""
    data = settings.task.get("data")
    folders = [str(data), *(str(path.resolve().parent) for path in files.dictionaries.values())]
    pattern = re.compile(rf"(?<![^\W_]){re.escape(pair[0])}[-_]{re.escape(pair[1])}(?![^\W_])")
    return any(pattern.search(folder) for folder in folders)


def _tokenization(
    settings: FairseqSettings,
    files: FairseqFiles,
    source: str,
    target: str,
    dictionaries: dict[str, Ids],
    choice: TokenizerChoice | None,
) -> Tokenization:
    tokens = {*dictionaries[source], *dictionaries[target]}
    is_tokenized = choice is not None and choice.is_plain  # before, with all that was done in training
    if choice:
        choice.check(dictionaries[source], f"dict.{source}.txt")
    else:
        choice = _find_choice(settings, files, (source, target), tokens)
    source_codes, target_codes = choice.code_names
    paths = {
        language: str(write_temporary_json(f"{language}.json", dictionaries[language])) for language in (source, target)
    }
    if dictionaries[source] == dictionaries[target]:
        paths[target] = paths[source]
    return Tokenization(
        source=paths[source],
        target=paths[target],
        kind=choice.kind,
        source_codes=source_codes,
        target_codes=target_codes,
        split=choice.split,
        plain_spaces=settings.tokenizer.get("_name") == "space",
        moses=None if is_tokenized else _moses(settings.tokenizer, source, target, tokens),
    )


def _find_choice(
    settings: FairseqSettings, files: FairseqFiles, languages: tuple[str, str], tokens: set[str]
) -> TokenizerChoice:
    name = settings.bpe.get("_name")
    kind = SUBWORDS[name] if name else _kind(tokens)
    if kind == "words":
        return TokenizerChoice(kind)
    if kind == "bpe":
        return TokenizerChoice(kind, _codes(kind, files.codes, settings.bpe.get("bpe_codes"), languages), "blanks")
    return TokenizerChoice(kind, _codes(kind, files.pieces, settings.bpe.get("sentencepiece_model"), languages))


def _kind(tokens: set[str]) -> VocabularyKind:
    if any(token.startswith(SPACE) for token in tokens):
        return "pieces"
    return "bpe" if any(token.endswith(CONTINUATION) and token != CONTINUATION for token in tokens) else "words"


def _codes(kind: VocabularyKind, files: Sequence[Path], named: object, languages: tuple[str, str]) -> tuple[Path, Path]:
    """Return the only file, the one that the settings name, or one for each side."""
    tokens, name = CODES[kind]
    matching = [path for path in files if isinstance(named, str) and path.name == Path(named).name]
    chosen = matching if len(matching) == 1 else list(files)
    if not chosen:
        raise CheckpointError(
            f"the dictionary has {tokens}, but there is no file for them; copy it there as {name}, "
            "or name it with --tokenizer"
        )
    sides = [[path for path in chosen if language in re.split(r"[._-]", path.name)] for language in languages]
    source, target = (side if len(side) == 1 else chosen for side in sides)
    if len(source) > 1 or len(target) > 1:
        names = ", ".join(path.name for path in chosen)
        raise CheckpointError(f"there are {names}; keep only the one that splits text into {tokens}")
    return source[0], target[0]


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
