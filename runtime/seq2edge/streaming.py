"""A translation piece by piece, as soon as each piece is certain; needs numpy."""

from collections.abc import Generator, Iterator

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
                if text.startswith(sent) and len(text) > len(sent) and not text.endswith(HALF_A_CHARACTER):
                    yield text[len(sent) :]
                    sent = text
        except StopIteration as stop:
            self.translation = stop.value
        if self.translation is not None and len(self.translation.text) > len(sent):
            yield self.translation.text[len(sent) :]
