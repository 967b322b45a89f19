"""Train the SentencePiece vocabulary.

Text is normalised by SentencePiece's ``nmt_nfkc`` rule:

1. U+0001 to U+0008, U+000B, U+000E to U+001F, U+007F, U+008F and U+009F are removed.
2. Tab, line ends, U+1680, U+200B, U+200C, U+200E, U+200F, U+2028, U+2029, U+FEFF, U+FFFD and U+2581, with which
   SentencePiece marks a space, are read as a space.
3. The rest becomes NFKC, but the full-width tilde U+FF5E stays.
4. Runs of spaces become one space, and those at the ends go.

Whatever has no piece of its own becomes bytes, so that no other character is ever lost.
"""

import io
import re
from collections.abc import Iterable
from itertools import chain

import sentencepiece

from seq2edge.config.tokenizer import SpecialTokens
from seq2edge.errors import DataError, UsageError
from seq2edge.text.tokenizer import Tokenizer
from seq2edge.text.vocabularies import SentencePieceVocabulary
from seq2edge_export.training.config import TokenizerSettings
from seq2edge_export.training.data import Pairs

TOKENS = SpecialTokens(pad=0, unk=1, bos=2, eos=3)
JOINT, SOURCE, TARGET = MODEL_NAMES = ("tokenizer.model", "source.model", "target.model")


def train_tokenizer(pairs: Pairs, settings: TokenizerSettings, *, seed: int) -> dict[str, bytes]:
    """The content of the vocabulary files by name, that of the source first and that of the target last."""
    if settings.joint_vocabulary:
        return {JOINT: _train(chain(pairs.sources, pairs.targets), settings, seed)}
    return {SOURCE: _train(pairs.sources, settings, seed), TARGET: _train(pairs.targets, settings, seed)}


def load_tokenizer(models: dict[str, bytes]) -> Tokenizer:
    """Use freshly trained vocabularies before they are files."""
    loaded = [SentencePieceVocabulary(sentencepiece.SentencePieceProcessor(model_proto=one)) for one in models.values()]
    return Tokenizer(loaded[0], loaded[-1], eos=TOKENS.eos)


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
        raise _refusal(str(error), settings) from None
    return model.getvalue()


def _refusal(reason: str, settings: TokenizerSettings) -> DataError | UsageError:
    """What to do about SentencePiece's complaint."""
    most = re.search(r"too high.*<= (\d+)", reason)
    if most:
        return UsageError(
            f"--vocabulary {settings.vocabulary} is too large: this text has at most {most[1]} pieces; "
            f"use --vocabulary {most[1]} or less, or more text"
        )
    least = re.search(r"smaller than required_chars.* vs (\d+)", reason)
    if least:
        return UsageError(
            f"--vocabulary {settings.vocabulary} is too small: bytes, special ids and the characters of this text are "
            f"{least[1]} pieces; use --vocabulary {least[1]} or more, or a lower --character-coverage"
        )
    last = reason.strip().splitlines()[-1]
    return DataError(f"SentencePiece cannot make {settings.vocabulary} pieces of this text ({last})")
