"""Read the vocabularies, special tokens and transforms of OpenNMT-py and eole."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2edge.config.architecture import Architecture
from seq2edge.config.tokenizer import SpecialTokens, Tokenization, VocabularyKind
from seq2edge.errors import CheckpointError, listed
from seq2edge.text.vocabularies.bpe import CONTINUATION
from seq2edge.text.vocabularies.sentencepiece import SPACE
from seq2edge_export.loaders.opennmt.files import OpenNmtFiles, Options, section
from seq2edge_export.loaders.tokenizer_files import (
    SENTENCEPIECE,
    TokenizerChoice,
    find_sentencepiece,
    write_temporary_json,
)

UNK, PAD, BOS, EOS = "<unk>", "<blank>", "<s>", "</s>"  # defaults; eole may name others
PYONMTTOK = "onmt_tokenize"
TOKENIZERS: dict[str, VocabularyKind] = {"sentencepiece": "pieces", PYONMTTOK: "pieces", "bpe": "bpe"}
# These select sentence pairs for training, or add noise to them.
TRAINING = {"filtertoolong", "filtertooshort", "clean", "switchout", "tokendrop", "tokenmask", "bart"}
SIDES = ("src", "tgt")
JOINER = "\uffed"  # joins subwords of pyonmttok
SUBWORDS = {SPACE: "SentencePiece", CONTINUATION: "BPE", JOINER: "pyonmttok"}  # by their marker in a vocabulary
MIN_SHARE = 0.02  # of a vocabulary; fewer may be words that look like subwords


@dataclass(frozen=True, kw_only=True)
class OpenNmtText:
    """The tokens of both sides in the order of their ids, the special tokens and the transforms."""

    path: Path  # of the checkpoint
    folder: Path  # with the tokenizer files
    source: tuple[str, ...]
    target: tuple[str, ...]
    start: str
    pad: str
    eos: str
    transforms: Mapping[str, Options]  # applied to a text in this order
    shared: bool  # the target is tokenized like the source


def read_text(files: OpenNmtFiles) -> OpenNmtText:
    """Read the vocabularies as both frameworks write them; eole's may name special tokens of its own."""
    content: Options = files.vocabulary if isinstance(files.vocabulary, dict) else {}
    source, target = (_tokens(content.get(side), files.path) for side in SIDES)
    special = section(content, "specials")
    names = _transform_names(files.options)
    chosen = section(files.options, "transforms_configs")
    is_eole = files.framework == "eole"
    return OpenNmtText(
        path=files.path,
        folder=files.folder,
        source=source,
        target=target,
        start=str(content.get("decoder_start_token", BOS)),
        pad=str(special.get("pad_token", PAD)),
        eos=str(special.get("eos_token", EOS)),
        transforms={name: section(chosen, name) if is_eole else files.options for name in names},
        shared=files.options.get("share_vocab") is True,
    )


def _transform_names(options: Options) -> tuple[str, ...]:
    """Return the transforms of validation, or those of training if there are none."""
    names = _listed(options)
    corpora = options.get("data")
    if not names and isinstance(corpora, dict):
        names = [name for corpus in corpora.values() if isinstance(corpus, dict) for name in _listed(corpus)]
    return tuple(dict.fromkeys(names))


def _listed(options: Options) -> list[str]:
    names = options.get("transforms")
    return [str(name) for name in names] if isinstance(names, list) else []


def _tokens(content: Any, path: Path) -> tuple[str, ...]:
    if not isinstance(content, list) or not content or not all(isinstance(token, str) for token in content):
        raise CheckpointError(f"{path} has no vocabularies named src and tgt, each a list of tokens")
    return tuple(content)


def unsupported_text(text: OpenNmtText) -> list[str]:
    """List the transforms that are not supported."""
    problems = [f"the transform {name}" for name in text.transforms if name not in TOKENIZERS and name not in TRAINING]
    tokenizers = [name for name in text.transforms if name in TOKENIZERS]
    if len(tokenizers) > 1:
        problems.append(f"several tokenizers, one after another ({', '.join(tokenizers)})")
    for name in tokenizers:
        problems += _unsupported_options(name, text.transforms[name])
    return problems


def tokenization_of(text: OpenNmtText, choice: TokenizerChoice | None) -> Tokenization:
    """Return the tokenization with the paths of its files; sources have no special tokens."""
    choice = choice or _find_choice(text)
    choice.check(text.source, f"the source vocabulary of {text.path.name}")
    source = str(write_temporary_json("vocab.json", text.source))
    target = source if text.source == text.target else str(write_temporary_json("vocab.json", text.target))
    source_codes, target_codes = choice.code_names
    return Tokenization(
        source=source,
        target=target,
        kind=choice.kind,
        source_codes=source_codes,
        target_codes=target_codes,
        split=choice.split,
        source_eos=False,
    )


def _unsupported_options(name: str, options: Options) -> Iterator[str]:
    for side in SIDES:
        if options.get(f"{side}_vocab_threshold") and options.get(f"{side}_subword_vocab"):
            yield f"subwords that a vocabulary limits ({side}_vocab_threshold = {options[f'{side}_vocab_threshold']})"
        if name == PYONMTTOK:
            kind, settings = (
                options.get(f"{side}_subword_type", "none"),
                _pyonmttok_settings(options.get(f"{side}_onmttok_kwargs")),
            )
            if kind != "sentencepiece" or settings != {"mode": "none"}:
                yield f"pyonmttok that does more than SentencePiece ({side}: {kind}, {settings})"
    if name == PYONMTTOK and options.get("gpt2_pretok"):
        yield "texts as bytes (gpt2_pretok)"


def _pyonmttok_settings(value: Any) -> Any:
    """Return the settings of pyonmttok, which may be written as Python."""
    try:
        return ast.literal_eval(value) if isinstance(value, str) else value or {"mode": "none"}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value


def _find_choice(text: OpenNmtText) -> TokenizerChoice:
    """Return the tokenizer that a transform names or that is next to the model."""
    for name, options in text.transforms.items():
        if name in TOKENIZERS:
            source = _locate(text, name, options.get("src_subword_model"))
            target = source if text.shared else _locate(text, name, options.get("tgt_subword_model"))
            return TokenizerChoice(TOKENIZERS[name], (source, target))
    if any(path.suffix in SENTENCEPIECE for path in text.folder.iterdir()):
        return TokenizerChoice("pieces", find_sentencepiece(text.folder))
    _check_words(text)
    return TokenizerChoice("words")


def _locate(text: OpenNmtText, name: str, named: Any) -> Path:
    """Find the file of a transform: next to the checkpoint, or where it was in training."""
    if not isinstance(named, str) or not named:
        raise CheckpointError(f"{text.path} names no subword model for its transform {name}, for source or target")
    path = Path(named)
    copy = text.folder / path.name
    if copy.is_file() or path.is_file():
        return (copy if copy.is_file() else path).resolve()
    raise CheckpointError(f"{text.folder} has no {path.name}, which the transform {name} needs; copy it there")


def _check_words(text: OpenNmtText) -> None:
    """Refuse a vocabulary of subwords whose tokenizer is unknown."""
    for marker, kind in SUBWORDS.items():
        if sum(marker in token for token in text.source) > MIN_SHARE * len(text.source):
            raise CheckpointError(
                f"the source vocabulary of {text.path} holds subwords of {kind}, but no transform "
                "names their tokenizer; copy a SentencePiece model next to it as sentencepiece.model, or as source.spm "
                "and target.spm, or tell with --tokenizer how to split texts"
            )


def special_tokens(text: OpenNmtText, architecture: Architecture) -> SpecialTokens:
    """Return the ids of the special tokens; the unknown token must have the same id on both sides."""
    source, target = ({token: number for number, token in enumerate(side)} for side in (text.source, text.target))
    missing = [repr(token) for token in (text.start, text.eos) if token not in target]
    if missing:
        raise CheckpointError(
            f"the target vocabulary of {text.path} has no {' and no '.join(missing)}, but outputs start with "
            f"{text.start!r} and end with {text.eos!r}"
        )
    _check_sizes(text, architecture)
    eos, unk = target[text.eos], target.get(UNK, 0)  # eole uses the first token if there is no unknown token
    if source.get(UNK, 0) != unk:
        raise CheckpointError(
            f"{UNK!r} has the id {source.get(UNK, 0)} in the source vocabulary of {text.path} and {unk} in the target "
            "vocabulary, expected the same id"
        )
    pad = target.get(text.pad, eos)
    pad = pad if pad < architecture.source_vocabulary else unk
    return SpecialTokens(pad=pad, bos=target[text.start], eos=eos, unk=unk)


def _check_sizes(text: OpenNmtText, architecture: Architecture) -> None:
    sizes = {
        "source": (len(text.source), architecture.source_vocabulary),
        "target": (len(text.target), architecture.target_vocabulary),
    }
    problems = [
        f"{tokens} {side} tokens, but its model {size}" for side, (tokens, size) in sizes.items() if tokens != size
    ]
    if problems:
        raise CheckpointError(f"{text.path} has {listed(problems)}")
