"""Train the SentencePiece vocabulary; needs sentencepiece.

Text is normalised by SentencePiece's ``nmt_nfkc`` rule: NFKC, control characters removed, runs of white space made one
space, and none at the ends. Whatever has no piece of its own becomes bytes, so that no character is ever lost.
"""

import io
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import sentencepiece
from seq2edge.errors import DataError
from seq2edge.files import replaced_file
from seq2edge.tokens import SpecialTokens

from seq2edge_export.training.pairs import Pairs
from seq2edge_export.training.settings import TokenizerSettings

TOKENS = SpecialTokens(pad=0, unk=1, bos=2, eos=3)


def train_tokenizer(pairs: Pairs, folder: Path, settings: TokenizerSettings, *, seed: int) -> tuple[str, str]:
    """Write the vocabularies and give the file names for source and target."""
    if settings.joint_vocabulary:
        _train(chain(pairs.sources, pairs.targets), folder / "tokenizer.model", settings, seed)
        return "tokenizer.model", "tokenizer.model"
    _train(pairs.sources, folder / "source.model", settings, seed)
    _train(pairs.targets, folder / "target.model", settings, seed)
    return "source.model", "target.model"


def _train(texts: Iterable[str], path: Path, settings: TokenizerSettings, seed: int) -> None:
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
        reason = str(error).strip().splitlines()[-1]
        raise DataError(
            f"SentencePiece could not make a vocabulary of {settings.vocabulary} pieces from this text ({reason})"
        ) from None
    with replaced_file(path) as new:
        new.write_bytes(model.getvalue())
