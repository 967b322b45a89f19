"""Vet a SentencePiece model before the library loads it.

The library follows the normalization tables of a model without bounds checks, and allocates whatever they ask for.
"""

from pathlib import Path

from seq2edge.bundle.protobuf import VARINT, BrokenFileError, Field, Message, MessageSchema, check_schema
from seq2edge.errors import DataError
from seq2edge.text.vocabularies.limits import check_expansion, check_piece_lengths, check_tables

MAX_PIECES = 2**21
MAX_TEST_BYTES = 2**16  # of texts that the library encodes while it loads the model
# Fields of a model: pieces, trainer, normalizer, test, denormalizer.
MODEL = MessageSchema("model", {1: Field(repeated=True), 2: Field(), 3: Field(), 4: Field(), 5: Field()})
NORMALIZER = MessageSchema(
    "normalizer", {1: Field(text=True), 2: Field(), **dict.fromkeys((3, 4, 5), Field(wire_type=VARINT)), 6: Field()}
)
PIECES, TRAINER, TEST, NORMALIZERS = 1, 2, 4, (3, 5)  # field numbers of sentencepiece_model.proto
TABLES, UNKNOWN_TEXT = 2, 44  # of a normalizer, of the trainer


def vet_sentencepiece(content: bytes, path: Path) -> None:
    """Refuse a model that could crash the library; ``path`` is its name in errors."""
    try:
        _check_model(Message(content, 0, len(content)))
    except BrokenFileError as error:
        raise DataError(f"{path} is not a valid SentencePiece model: {error}") from None


def _check_model(model: Message) -> None:
    check_schema(model, MODEL, max_fields=MAX_PIECES)
    if PIECES not in model.fields:
        raise BrokenFileError("it has no pieces")
    check_piece_lengths(model.lengths(PIECES))
    for trainer in model.messages(TRAINER):
        check_piece_lengths(trainer.lengths(UNKNOWN_TEXT))  # that every unknown token is decoded to
    if sum(model.lengths(TEST)) > MAX_TEST_BYTES:
        raise BrokenFileError(f"its test data have more than {MAX_TEST_BYTES:,} bytes")
    for number in NORMALIZERS:
        for normalizer in model.messages(number):
            check_schema(normalizer, NORMALIZER, max_fields=len(NORMALIZER.fields))
            for tables in normalizer.contents(TABLES):
                if tables:
                    check_expansion(check_tables(tables), "normalization tables")
