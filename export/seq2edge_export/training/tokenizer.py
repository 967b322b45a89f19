"""Train SentencePiece vocabularies.

Text is normalized by SentencePiece's ``nmt_nfkc`` rule:

1. U+0001 to U+0008, U+000B, U+000E to U+001F, U+007F, U+008F and U+009F are removed.
2. Tab, line ends, U+1680, U+200B, U+200C, U+200E, U+200F, U+2028, U+2029, U+FEFF, U+FFFD and U+2581, with which
   SentencePiece marks a space, become a space.
3. The rest is normalized to NFKC, except for the full-width tilde U+FF5E.
4. Runs of spaces become one space, and leading and trailing spaces are removed.

Characters without a piece are encoded as bytes, so that no other character is lost.
"""

import io
import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import sentencepiece

from seq2edge.config.tokenizer import SpecialTokens
from seq2edge.errors import CheckpointError, DataError, UsageError
from seq2edge.text.tokenizer import Tokenizer
from seq2edge.text.vocabularies import SentencePieceVocabulary
from seq2edge_export.training.config import TokenizerSettings
from seq2edge_export.training.data import Pairs

TOKENS = SpecialTokens(pad=0, unk=1, bos=2, eos=3)
JOINT, SOURCE, TARGET = MODEL_NAMES = ("tokenizer.model", "source.model", "target.model")


def train_tokenizer(files: list[Pairs], settings: TokenizerSettings, *, seed: int) -> dict[str, bytes]:
    """Return the content of the vocabulary files by name, the source first and the target last."""
    sources = chain.from_iterable(pairs.sources for pairs in files)
    targets = chain.from_iterable(pairs.targets for pairs in files)
    if settings.joint_vocabulary:
        return {JOINT: _train(chain(sources, targets), settings, seed)}
    return {SOURCE: _train(sources, settings, seed), TARGET: _train(targets, settings, seed)}


def read_tokenizer(folder: Path) -> dict[str, bytes]:
    """Return the vocabulary files of a checkpoint by name, the source first and the target last."""
    names = [JOINT] if (folder / JOINT).exists() else [SOURCE, TARGET]
    try:
        return {name: (folder / name).read_bytes() for name in names}
    except OSError as error:
        raise CheckpointError(f"{error.filename} cannot be read: {error.strerror}") from None


def load_tokenizer(models: dict[str, bytes]) -> Tokenizer:
    """Load trained vocabularies that are not files yet."""
    processors = [sentencepiece.SentencePieceProcessor(model_proto=model) for model in models.values()]
    vocabularies = [SentencePieceVocabulary(processor) for processor in processors]
    return Tokenizer(vocabularies[0], vocabularies[-1], eos=TOKENS.eos)


def _train(texts: Iterable[str], settings: TokenizerSettings, seed: int) -> bytes:
    sentencepiece.set_random_generator_seed(seed)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type=settings.tokenizer,
            vocab_size=settings.vocabulary,
            character_coverage=settings.character_coverage,
            split_digits=settings.split_digits,
            byte_fallback=True,
            normalization_rule_name="nmt_nfkc",
            num_threads=1,  # the pieces depend on the number of threads
            minloglevel=2,
            pad_id=TOKENS.pad,
            unk_id=TOKENS.unk,
            bos_id=TOKENS.bos,
            eos_id=TOKENS.eos,
        )
    except RuntimeError as error:
        raise _training_error(str(error), settings) from None
    return model.getvalue()


def _training_error(reason: str, settings: TokenizerSettings) -> DataError | UsageError:
    """Translate an error message of SentencePiece."""
    maximum = re.search(r"too high.*<= (\d+)", reason)
    if maximum:
        return UsageError(
            f"--vocabulary {settings.vocabulary} is too large: this text has at most {maximum[1]} pieces; "
            f"use --vocabulary {maximum[1]} or less, or more text"
        )
    minimum = re.search(r"smaller than required_chars.* vs (\d+)", reason)
    if minimum:
        return UsageError(
            f"--vocabulary {settings.vocabulary} is too small: bytes, special tokens and characters of this text are "
            f"{minimum[1]} pieces; use --vocabulary {minimum[1]} or more, or a lower --character-coverage"
        )
    last = reason.strip().splitlines()[-1]
    return DataError(f"SentencePiece cannot train {settings.vocabulary} pieces on this text ({last})")
