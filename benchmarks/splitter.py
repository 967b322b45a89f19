"""Compare the sentence splitter with pysbd and sentencex on texts whose sentences are known.

    python benchmarks/splitter.py en SENTENCES.txt [--together 4] [--errors 20]

The file has one sentence per line. With --together, this many lines make a text; otherwise blank lines separate texts.
Peers that are not installed are left out (pip install pysbd sentencex). A boundary is right if it is between the same
two visible characters; the ends of texts do not count.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import accumulate, groupby
from pathlib import Path

import click

from seq2edge.text.segments import join_texts
from seq2edge.text.sentence_splitter import split_sentences

Splitter = Callable[[str], Sequence[str]]
Texts = list[list[str]]  # the sentences of each text


@click.command()
@click.argument("language")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--together", type=click.IntRange(min=1), help="Lines in a text; default: blank lines separate texts.")
@click.option("--errors", "shown", default=0, help="Also print this many wrong boundaries of each splitter.")
def main(language: str, file: Path, together: int | None, shown: int) -> None:
    """Split the texts of FILE, which are in LANGUAGE, with each splitter, and count the boundaries."""
    texts = list(read_texts(file, together))
    print(f"{file.name}: {len(texts)} texts, {sum(map(len, texts))} sentences")
    print("| splitter | precision | recall | F1 | texts without an error | million characters/s |")
    print("|---|---|---|---|---|---|")
    for name, split in splitters(language).items():
        measure(name, split, texts, shown)


def read_texts(file: Path, together: int | None) -> Iterator[list[str]]:
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    if together is None:
        yield from (list(group) for filled, group in groupby(lines, key=bool) if filled)
        return
    lines = [line for line in lines if line]
    yield from (lines[start : start + together] for start in range(0, len(lines), together))


def splitters(language: str) -> dict[str, Splitter]:
    """Return the splitters that are installed and know the language."""
    found: dict[str, Splitter] = {"seq2edge": split_sentences}
    if find_spec("pysbd"):
        import pysbd
        from pysbd.languages import LANGUAGE_CODES

        if language in LANGUAGE_CODES:  # Portuguese is not
            found["pysbd"] = pysbd.Segmenter(language=language, clean=False).segment
    if find_spec("sentencex"):
        import sentencex

        found["sentencex"] = lambda text: list(sentencex.segment(language, text))
    return found


def measure(name: str, split: Splitter, texts: Texts, shown: int) -> None:
    right = found = expected = faultless = 0
    joined = [join_texts(sentences) for sentences in texts]
    started = time.perf_counter()
    results = [split(text) for text in joined]
    seconds = time.perf_counter() - started
    errors: list[str] = []
    for text, sentences, result in zip(joined, texts, results, strict=True):
        wanted, got = boundaries(sentences), boundaries(result)
        right, found, expected = right + len(wanted & got), found + len(got), expected + len(wanted)
        faultless += wanted == got
        errors += [describe(text, at, "missed" if at in wanted else "wrong") for at in sorted(wanted ^ got)]
    precision, recall = right / max(1, found), right / max(1, expected)
    rate = sum(map(len, joined)) / seconds / 1e6
    print(
        f"| {name} | {precision:.2%} | {recall:.2%} | {2 * right / max(1, found + expected):.2%} "
        f"| {faultless / len(texts):.1%} | {rate:.2f} |"
    )
    print("\n".join(errors[:: max(1, len(errors) // shown)][:shown]) if shown else "", end="\n" if shown else "")


def boundaries(sentences: Sequence[str]) -> set[int]:
    """Return the number of visible characters before each boundary inside a text."""
    *inside, end = accumulate(len("".join(sentence.split())) for sentence in sentences)
    return {at for at in inside if 0 < at < end}


def describe(text: str, boundary: int, kind: str) -> str:
    positions = [index for index, character in enumerate(text) if not character.isspace()]
    at = positions[boundary]
    return f"  {kind}: {text[max(0, at - 40) : at]}|{text[at : at + 30]}"


if __name__ == "__main__":
    main()
