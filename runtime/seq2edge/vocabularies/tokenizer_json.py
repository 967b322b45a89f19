"""A ``tokenizer.json`` as the tokenizers library runs it, such as the byte-level BPE of BART; needs tokenizers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tokenizers import Encoding, Tokenizer

from seq2edge.errors import DataError
from seq2edge.tokens import SpecialTokens
from seq2edge.vocabularies.tokenizer_json_file import check_tokenizer_json

PANIC = "PanicException"  # of a library in Rust


class TokenizerJson:
    """A text is what the file says, all but what it would put around the text."""

    def __init__(self, model: Tokenizer, tokens: SpecialTokens) -> None:
        model.no_truncation()
        model.no_padding()
        self.model = model
        self.odd = {tokens.unk}
        self.size = max(model.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def encode(self, texts: list[str]) -> list[list[int]]:
        with refusals("the vocabulary cannot cut this text"):
            return [encoding.ids for encoding in self.model.encode_batch(texts, add_special_tokens=False)]

    def decode(self, ids: list[int]) -> str:
        with refusals("the vocabulary cannot write these tokens"):
            return self.model.decode(ids, skip_special_tokens=True)

    def spell(self, text: str) -> list[str]:
        encoding = self._encoding(text)
        return [text[start:end] or token for (start, end), token in zip(encoding.offsets, encoding.tokens, strict=True)]

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        places = zip(self._encoding(text).offsets, ids, strict=True)
        return sum(len(text[start:end].strip()) for (start, end), number in places if number in self.odd)

    def piece(self, number: int) -> str:
        return (self.model.id_to_token(number) if 0 <= number < self.size else None) or f"<{number}>"

    def get_piece_size(self) -> int:
        return self.size

    def _encoding(self, text: str) -> Encoding:
        with refusals("the vocabulary cannot cut this text"):
            return self.model.encode(text, add_special_tokens=False)


def load_tokenizer_json(path: Path, tokens: SpecialTokens) -> TokenizerJson:
    content = check_tokenizer_json(path)
    with refusals(f"{path} is not a tokenizer.json that can be read"):
        return TokenizerJson(Tokenizer.from_str(content), tokens)


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Whatever the library raises as an error of ours; it has no type of its own, and its panics are no Exception."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        raise DataError(f"{what} ({error})") from None
