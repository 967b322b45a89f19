"""Print a translation while it grows: python examples/streaming.py "Good morning! Where is the station?" ."""

import sys

from seq2edge import Translator


def main(text: str) -> None:
    stream = Translator().stream(text)
    for piece in stream:  # each piece is certain: what was printed never changes
        print(piece, end="", flush=True)
    print()
    assert stream.translation is not None
    print(f"log-probability {stream.translation.score:.2f}", *stream.translation.notes, sep=", ", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
