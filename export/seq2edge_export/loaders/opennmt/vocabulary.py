"""How a text becomes tokens, as the transforms of a checkpoint say.

The special tokens of a checkpoint of OpenNMT-py or eole.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seq2edge.config.architecture import Architecture
from seq2edge.config.tokenizer import Kind, SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError
from seq2edge.text.vocabularies.bpe import GOES_ON
from seq2edge.text.vocabularies.sentencepiece import SPACE
from seq2edge_export.loaders.ctranslate2.files import PIECES, find_pieces
from seq2edge_export.loaders.ctranslate2.vocabulary import check_pieces
from seq2edge_export.loaders.hugging_face.tokenizer import made_file
from seq2edge_export.loaders.opennmt.config import UNK, OpenNmtCheckpoint, Options

PYONMTTOK = "onmt_tokenize"
CUTTERS: dict[str, Kind] = {"sentencepiece": "pieces", PYONMTTOK: "pieces", "bpe": "bpe"}
# They choose sentence pairs to train on, or make noise in them.
TRAINING = {"filtertoolong", "filtertooshort", "clean", "switchout", "tokendrop", "tokenmask", "bart"}
SIDES = ("src", "tgt")
JOINER = "\uffed"  # between subwords of pyonmttok
SUBWORDS = {SPACE: "SentencePiece", GOES_ON: "BPE", JOINER: "pyonmttok"}  # by what marks them in a vocabulary
MANY = 0.02  # of a vocabulary: with fewer, they may be words that look so


def unsupported_text(given: OpenNmtCheckpoint) -> list[str]:
    """What is done to texts and this family cannot do."""
    found = [f"the transform {name}" for name in given.transforms if name not in CUTTERS and name not in TRAINING]
    cutters = [name for name in given.transforms if name in CUTTERS]
    if len(cutters) > 1:
        found.append(f"several tokenizers, one behind the other ({', '.join(cutters)})")
    for name in cutters:
        found += _limits(name, given.transforms[name])
    return found


def tokenization_of(given: OpenNmtCheckpoint) -> Tokenization:
    """The files by their paths; nothing stands around a source text."""
    kind, codes = _cut_by(given)
    words = given.words
    source = str(made_file("vocab.json", words.source))
    target = source if words.source == words.target else str(made_file("vocab.json", words.target))
    if kind == "pieces":
        check_pieces(codes[0], words.source, f"the source vocabulary of {given.path.name}")
    source_codes, target_codes = (str(path) for path in codes) if codes else ("", "")
    return Tokenization(
        source=source,
        target=target,
        kind=kind,
        source_codes=source_codes,
        target_codes=target_codes,
        source_eos=False,
    )


def _limits(name: str, options: Options) -> Iterator[str]:
    for side in SIDES:
        if options.get(f"{side}_vocab_threshold") and options.get(f"{side}_subword_vocab"):
            yield f"subwords that a vocabulary limits ({side}_vocab_threshold = {options[f'{side}_vocab_threshold']})"
        if name == PYONMTTOK:
            kind, chosen = options.get(f"{side}_subword_type", "none"), _chosen(options.get(f"{side}_onmttok_kwargs"))
            if kind != "sentencepiece" or chosen != {"mode": "none"}:
                yield f"pyonmttok that does more than SentencePiece ({side}: {kind}, {chosen})"
    if name == PYONMTTOK and options.get("gpt2_pretok"):
        yield "texts as bytes (gpt2_pretok)"


def _chosen(value: Any) -> Any:
    """The settings of pyonmttok, which may be written as Python."""
    try:
        return ast.literal_eval(value) if isinstance(value, str) else value or {"mode": "none"}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value


def _cut_by(given: OpenNmtCheckpoint) -> tuple[Kind, tuple[Path, ...]]:
    """The kind of vocabulary, and the files that cut source and target: named by the checkpoint, or beside it."""
    for name, options in given.transforms.items():
        if name in CUTTERS:
            source = _locate(given, name, options.get("src_subword_model"))
            target = source if given.one_cutter else _locate(given, name, options.get("tgt_subword_model"))
            return CUTTERS[name], (source, target)
    if any(path.suffix in PIECES for path in given.folder.iterdir()):
        return "pieces", find_pieces(given.folder)
    _check_words(given)
    return "words", ()


def _locate(given: OpenNmtCheckpoint, name: str, named: Any) -> Path:
    """A file that belongs to a transform: beside the checkpoint, else where it was in training."""
    if not isinstance(named, str) or not named:
        raise CheckpointError(f"{given.path} names no subword model for its transform {name}, for source or target")
    path = Path(named)
    beside = given.folder / path.name
    if beside.is_file() or path.is_file():
        return (beside if beside.is_file() else path).resolve()
    raise CheckpointError(f"{given.folder} has no {path.name}, by which {name} cuts texts; copy it there")


def _check_words(given: OpenNmtCheckpoint) -> None:
    """Refuse to take subwords for words."""
    for mark, kind in SUBWORDS.items():
        if sum(mark in token for token in given.words.source) > MANY * len(given.words.source):
            raise CheckpointError(
                f"the source vocabulary of {given.path} holds subwords of {kind}, but no transform says how texts are "
                "cut; a SentencePiece model is taken from beside it, as sentencepiece.model, or as source.spm and "
                "target.spm"
            )


def special_tokens(given: OpenNmtCheckpoint, shape: Architecture) -> SpecialTokens:
    """The ids of the marks; a token that is not known has the same id on both sides."""
    words = given.words
    source, target = ({token: number for number, token in enumerate(side)} for side in (words.source, words.target))
    missing = [repr(token) for token in (words.start, words.eos) if token not in target]
    if missing:
        raise CheckpointError(
            f"{given.path} has no {' and no '.join(missing)} among its target tokens, with which outputs start or end"
        )
    _check_sizes(given, shape)
    eos, unk = target[words.eos], target.get(UNK, 0)  # without it, eole takes the first token
    if source.get(UNK, 0) != unk:
        raise CheckpointError(
            f"{UNK!r} has the id {source.get(UNK, 0)} in the source vocabulary of {given.path} and {unk} in the "
            "target's, but one id is wanted"
        )
    pad = target.get(words.pad, eos)
    return SpecialTokens(pad=pad if pad < shape.source_vocabulary else unk, bos=target[words.start], eos=eos, unk=unk)


def _check_sizes(given: OpenNmtCheckpoint, shape: Architecture) -> None:
    sizes = {
        "source": (len(given.words.source), shape.source_vocabulary),
        "target": (len(given.words.target), shape.target_vocabulary),
    }
    wrong = [
        f"{tokens} {side} tokens, but its model {size}" for side, (tokens, size) in sizes.items() if tokens != size
    ]
    if wrong:
        raise CheckpointError(f"{given.path} has {'; '.join(wrong)}")
