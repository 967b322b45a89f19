"""The special tokens and the vocabularies of a CTranslate2 model."""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from seq2edge.config.architecture import Architecture
from seq2edge.config.schema import short
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError, DataError
from seq2edge.text.vocabularies import load_sentencepiece
from seq2edge.text.vocabularies.plain import read_ids
from seq2edge_export.loaders.ctranslate2.files import Binary, Variables
from seq2edge_export.loaders.state_dict import read_object

CONFIG = "config.json"
EPSILON = 1e-5  # where the model does not say
PADDING = ("<pad>", "<blank>")
LANGUAGE = re.compile(r"__[a-z]{2,3}__|[a-z]{2}_[A-Z]{2}|[a-z]{3}_[A-Z][a-z]{3}")  # of M2M-100, mBART, NLLB
LANGUAGES = 10  # with fewer, it may be a piece of text that looks like one


@dataclass(frozen=True)
class TokenSettings:
    """What ``config.json`` says, or the variables of an old model."""

    unk: str
    bos: str | None
    eos: str
    start: str | None  # None: whoever translates has to say
    source_bos: bool
    source_eos: bool
    epsilon: float


@dataclass(frozen=True)
class Vocabularies:
    """The files that number the tokens, and the numbers."""

    source_file: Path
    target_file: Path
    source: dict[str, int]
    target: dict[str, int]


def read_settings(folder: Path, binary: Binary) -> TokenSettings:
    if binary.version < 6:
        return _old_settings(binary.variables)
    content = read_object(folder / CONFIG)
    epsilon = content.get("layer_norm_epsilon")
    settings = TokenSettings(
        unk=content.get("unk_token", "<unk>"),
        bos=content.get("bos_token", "<s>"),
        eos=content.get("eos_token", "</s>"),
        start=content.get("decoder_start_token", "<s>"),
        source_bos=content.get("add_source_bos", False),
        source_eos=content.get("add_source_eos", False),
        epsilon=EPSILON if epsilon is None else epsilon,
    )
    _check(settings, folder / CONFIG)
    return _with_end_of_tokenizer(settings)


def read_vocabularies(folder: Path) -> Vocabularies:
    shared, source, target = (_find(folder, f"{kind}_vocabulary") for kind in ("shared", "source", "target"))
    source, target = source or shared, target or shared
    if source is None or target is None:
        raise CheckpointError(
            f"{folder} has no vocabulary: shared_vocabulary.json (or .txt) is wanted, or one each for source and target"
        )
    try:
        return Vocabularies(source, target, read_ids(source), read_ids(target))
    except DataError as error:
        raise CheckpointError(str(error)) from None


def special_tokens(settings: TokenSettings, known: Vocabularies, shape: Architecture) -> SpecialTokens:
    """The ids of the marks, which both sides share as far as they use them."""
    target = known.target
    if settings.eos not in target:
        raise CheckpointError(f"{known.target_file} has no {settings.eos!r}, with which every output ends")
    eos, unk = target[settings.eos], _unknown(settings, target)
    anything = eos if shape.zero_start else unk  # a start without a vector can have any id
    bos = target.get(settings.start or "", anything)
    pad = next((target[token] for token in PADDING if token in target), eos)
    _check_source(settings, known, {settings.unk: unk, settings.eos: eos, settings.bos or "": bos})
    if max(bos, eos, unk, pad) >= shape.target_vocabulary or max(unk, pad) >= shape.source_vocabulary:
        raise CheckpointError(
            f"start, end, unknown and padding have the ids {bos}, {eos}, {unk} and {pad}, but the model has "
            f"{shape.source_vocabulary} source tokens and {shape.target_vocabulary} target tokens"
        )
    return SpecialTokens(pad=pad, bos=bos, eos=eos, unk=unk)


def tokenization_of(
    settings: TokenSettings, known: Vocabularies, source_model: Path, target_model: Path
) -> Tokenization:
    """The files by their paths, and what stands around a source text."""
    check_pieces(source_model, known.source, known.source_file.name)
    return Tokenization(
        source=str(known.source_file),
        target=str(known.target_file),
        kind="pieces",
        source_codes=str(source_model),
        target_codes=str(target_model),
        source_bos=settings.source_bos,
        source_eos=settings.source_eos,
    )


def check_pieces(model: Path, known: Collection[str], where: str) -> None:
    """Refuse a SentencePiece model that belongs to something else: nearly everything would be unknown."""
    try:
        pieces = load_sentencepiece(model)
    except DataError as error:
        raise CheckpointError(str(error)) from None
    size, listed = pieces.get_piece_size(), set(known)
    found = sum(pieces.piece(number) in listed for number in range(size))
    if found < size / 2:
        raise CheckpointError(
            f"{model} is not the SentencePiece model of {where}: "
            f"{size - found:,} of its {size:,} pieces are not in there"
        )


def unsupported_text(settings: TokenSettings, known: Vocabularies) -> list[str]:
    """What stands around texts and this family cannot put there."""
    found = []
    if settings.start is None:
        found.append("a start token that changes from text to text (decoder_start_token is null)")
    if sum(LANGUAGE.fullmatch(token) is not None for token in known.target) >= LANGUAGES:
        found.append("language codes in the text (a model for many languages)")
    return found


def _unknown(settings: TokenSettings, ids: dict[str, int]) -> int:
    """The unknown token; CTranslate2 adds it to a vocabulary that has none."""
    return ids.get(settings.unk, len(ids))


def _check_source(settings: TokenSettings, known: Vocabularies, wanted: dict[str, int]) -> None:
    """Refuse source marks that have other ids than the target's."""
    used = {settings.unk: True, settings.eos: settings.source_eos, settings.bos or "": settings.source_bos}
    for token in (token for token, is_used in used.items() if is_used):
        found = known.source.get(token, _unknown(settings, known.source))
        if found != wanted[token]:
            raise CheckpointError(
                f"{token!r} has the id {found} in {known.source_file.name}, but {wanted[token]} is wanted, "
                f"as in {known.target_file.name} or for the start of the decoder"
            )


def _check(settings: TokenSettings, path: Path) -> None:
    tokens = (settings.unk, settings.eos, settings.bos or "", settings.start or "")
    flags, epsilon = (settings.source_bos, settings.source_eos), settings.epsilon
    if not all(isinstance(token, str) for token in tokens) or not all(isinstance(flag, bool) for flag in flags):
        raise CheckpointError(
            f"{path} is not as CTranslate2 writes it: tokens should be text, add_source_* true or false"
        )
    if type(epsilon) not in (int, float) or not math.isfinite(epsilon):
        raise CheckpointError(f"{path} has the layer_norm_epsilon {short(epsilon)}, which is not a number")


def _with_end_of_tokenizer(settings: TokenSettings) -> TokenSettings:
    """Put the end mark behind sources where CTranslate2 leaves it to the caller.

    Models from Hugging Face start their decoder with the end mark or padding and got their end mark from the tokenizer;
    OpenNMT's start with ``<s>`` and have none.
    """
    from_hugging_face = settings.start in (settings.eos, *PADDING)
    return replace(settings, source_eos=settings.source_eos or from_hugging_face)


def _old_settings(variables: Variables) -> TokenSettings:
    """The settings of binary versions before 6, which are variables."""

    def text(name: str, default: str) -> str:
        return variables[name].tobytes().decode(errors="replace") if name in variables else default

    def flag(name: str, default: bool) -> bool:
        return bool(variables[name].any()) if name in variables else default

    bos, eos = text("bos_token", "<s>"), text("eos_token", "</s>")
    start = None if flag("user_decoder_start_tokens", False) else bos if flag("with_target_bos", True) else eos
    return TokenSettings(
        unk=text("unk_token", "<unk>"),
        bos=bos,
        eos=eos,
        start=start,
        source_bos=flag("with_source_bos", False),
        source_eos=flag("with_source_eos", False),
        epsilon=EPSILON,
    )


def _find(folder: Path, name: str) -> Path | None:
    return next((path for suffix in (".json", ".txt") if (path := folder / (name + suffix)).is_file()), None)
