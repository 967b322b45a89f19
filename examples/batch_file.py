"""Translate a file line by line: python examples/batch_file.py english.txt portuguese.tsv ."""

import sys
from pathlib import Path

from seq2edge import Translator


def main(source: Path, target: Path) -> None:
    with Translator(workers=2) as translator:
        summary = translator.translate_file(source, target, format="tsv", resume=True)  # translation, score, notes
    print(f"{summary.texts} lines, {summary.sentences} sentences, {summary.tokens} tokens")
    for note in summary.notes:
        print(f"note: {note}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
