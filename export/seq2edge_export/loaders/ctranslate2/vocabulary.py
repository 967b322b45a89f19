"""Read the vocabularies and special tokens of a CTranslate2 model."""

import re
from dataclasses import dataclass
from pathlib import Path

from seq2edge.config.architecture import Architecture
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError, DataError
from seq2edge.text.vocabularies.plain import read_ids
from seq2edge_export.loaders.ctranslate2.config import PADDING, TokenSettings
from seq2edge_export.loaders.tokenizer_files import TokenizerChoice, write_temporary_json

LANGUAGE = re.compile(r"__[a-z]{2,3}__|[a-z]{2}_[A-Z]{2}|[a-z]{3}_[A-Z][a-z]{3}")  # tags of M2M-100, mBART, NLLB
MIN_LANGUAGES = 10  # fewer may be ordinary tokens that look like tags


@dataclass(frozen=True)
class Vocabularies:
    """The vocabulary files and the ids in them."""

    source_file: Path
    target_file: Path
    source: dict[str, int]
    target: dict[str, int]


def read_vocabularies(folder: Path) -> Vocabularies:
    shared, source, target = (_find(folder, f"{kind}_vocabulary") for kind in ("shared", "source", "target"))
    source, target = source or shared, target or shared
    if source is None or target is None:
        raise CheckpointError(
            f"{folder} has no vocabulary: expected shared_vocabulary.json (or .txt), or one each for source and target"
        )
    try:
        return Vocabularies(source, target, read_ids(source), read_ids(target))
    except DataError as error:
        raise CheckpointError(str(error)) from None


def special_tokens(settings: TokenSettings, vocabularies: Vocabularies, architecture: Architecture) -> SpecialTokens:
    """Return the ids of the special tokens; all but the unknown token must be the same in both vocabularies."""
    target = vocabularies.target
    if settings.eos not in target:
        raise CheckpointError(f"{vocabularies.target_file} has no {settings.eos!r}, which ends every output")
    eos, unk, source_unk = target[settings.eos], _unknown(settings, target), _unknown(settings, vocabularies.source)
    default = eos if architecture.zero_start else unk  # a start without an embedding can have any id
    bos = target.get(settings.start or "", default)
    pad = next((target[token] for token in PADDING if token in target), eos)
    _check_source(settings, vocabularies, {settings.eos: eos, settings.bos or "": bos})
    sizes = architecture.source_vocabulary, architecture.target_vocabulary
    if max(bos, eos, unk, pad) >= sizes[1] or max(source_unk, pad) >= sizes[0]:
        raise CheckpointError(
            f"the start, end, unknown and padding tokens have the ids {bos}, {eos}, {unk} and {pad}, but the model has "
            f"{sizes[0]} source tokens and {sizes[1]} target tokens"
        )
    return SpecialTokens(pad=pad, bos=bos, eos=eos, unk=unk, source_unk=None if source_unk == unk else source_unk)


def tokenization_of(
    settings: TokenSettings, vocabularies: Vocabularies, tokens: SpecialTokens, choice: TokenizerChoice
) -> Tokenization:
    """Return the tokenization with the paths of its files."""
    choice.check(vocabularies.source, vocabularies.source_file.name)
    if choice.kind != "pieces":
        _check_same_special(vocabularies, {tokens.pad, tokens.bos, tokens.eos})
    source = _with_unknown(settings, vocabularies.source_file, vocabularies.source)
    is_shared = vocabularies.target_file == vocabularies.source_file
    target = source if is_shared else _with_unknown(settings, vocabularies.target_file, vocabularies.target)
    source_codes, target_codes = choice.code_names
    return Tokenization(
        source=str(source),
        target=str(target),
        kind=choice.kind,
        source_codes=source_codes,
        target_codes=target_codes,
        split=choice.split,
        source_bos=settings.source_bos,
        source_eos=settings.source_eos,
    )


def _with_unknown(settings: TokenSettings, file: Path, ids: dict[str, int]) -> Path:
    """Return a vocabulary file with the unknown token, which OpenNMT-tf leaves out."""
    return file if settings.unk in ids else write_temporary_json("vocabulary.json", {**ids, settings.unk: len(ids)})


def _check_same_special(vocabularies: Vocabularies, special: set[int]) -> None:
    """Refuse a word of the source whose id is that of a special token of the target: it could not be read."""
    target = {number: token for token, number in vocabularies.target.items() if number in special}
    for token, number in vocabularies.source.items():
        if number in target and target[number] != token:
            raise CheckpointError(
                f"{vocabularies.source_file.name} has {token!r} where {vocabularies.target_file.name} has the special "
                f"token {target[number]!r}, expected the same special tokens in both; only spm can be used with them"
            )


def unsupported_text(settings: TokenSettings, vocabularies: Vocabularies) -> list[str]:
    """List the features of tokenization that are not supported."""
    problems = []
    if settings.start is None:
        problems.append("a start token that changes from text to text (decoder_start_token is null)")
    if sum(LANGUAGE.fullmatch(token) is not None for token in vocabularies.target) >= MIN_LANGUAGES:
        problems.append("language codes in the text (a model for many languages)")
    return problems


def _unknown(settings: TokenSettings, ids: dict[str, int]) -> int:
    """Return the unknown id; CTranslate2 adds the token to a vocabulary that has none."""
    return ids.get(settings.unk, len(ids))


def _check_source(settings: TokenSettings, vocabularies: Vocabularies, expected: dict[str, int]) -> None:
    """Refuse special tokens of the source that have other ids in the target."""
    used = {settings.eos: settings.source_eos, settings.bos or "": settings.source_bos}
    for token in (token for token, is_used in used.items() if is_used):
        token_id = vocabularies.source.get(token, _unknown(settings, vocabularies.source))
        if token_id != expected[token]:
            raise CheckpointError(
                f"{token!r} has the id {token_id} in {vocabularies.source_file.name}, expected {expected[token]} "
                f"as in {vocabularies.target_file.name} or for the start of the decoder"
            )


def _find(folder: Path, name: str) -> Path | None:
    return next((path for suffix in (".json", ".txt") if (path := folder / (name + suffix)).is_file()), None)
