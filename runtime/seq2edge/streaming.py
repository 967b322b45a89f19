"""A translation piece by piece, as soon as each piece is certain; needs numpy."""

from collections.abc import Generator, Iterator

from seq2edge.fitting import settled
from seq2edge.translation import Translation

Grown = Generator[str, None, Translation]  # the text of a part so far, again and again, and then what became of it
HALF_A_CHARACTER = "\N{REPLACEMENT CHARACTER}"


class TextStream(Iterator[str]):
    """Iterate over it for pieces of text; behind the last, ``translation`` has the whole with all that is to know."""

    def __init__(self, grown: Grown) -> None:
        self.translation: Translation | None = None
        self._pieces = self._cut(grown)

    def __next__(self) -> str:
        return next(self._pieces)

    def _cut(self, grown: Grown) -> Iterator[str]:
        """What each text adds to the one before."""
        sent = ""
        try:
            while True:
                text = next(grown)
                certain = "" if text.endswith(HALF_A_CHARACTER) else settled(text)
                if certain.startswith(sent) and len(certain) > len(sent):
                    yield certain[len(sent) :]
                    sent = certain
        except StopIteration as stop:
            self.translation = stop.value
        yield from self._rest(sent)

    def _rest(self, sent: str) -> Iterator[str]:
        text = "" if self.translation is None else self.translation.text
        if not text.startswith(sent):
            raise RuntimeError(f"the pieces {sent!r} do not begin {text!r}: this is a mistake in seq2edge, please tell")
        if len(text) > len(sent):
            yield text[len(sent) :]
