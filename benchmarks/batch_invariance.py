"""Compare translations of single sentences with those in batches, to the last bit.

    python benchmarks/batch_invariance.py BUNDLE SENTENCES [--lines 1000]

Each sentence is translated alone, in batches of 7, 32 and 300, in shuffled order, and by two workers, with greedy and
beam search. The table counts the sentences whose tokens or scores differ from those of the sentence alone.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from random import Random

from seq2edge import Translator
from seq2edge.bench.environment import describe_environment

Result = tuple[tuple[int, ...], float]


def compare(bundle: Path, texts: list[str], num_beams: int) -> None:
    with Translator(bundle, threads=1) as one, Translator(bundle, threads=1, workers=2) as two:

        def translate(translator: Translator, some: list[str], size: int) -> list[Result]:
            results = (
                translator.translate(some[start:][:size], num_beams=num_beams) for start in range(0, len(some), size)
            )
            return [(result.tokens, result.score) for batch in results for result in batch]

        def shuffled(size: int) -> list[Result]:
            order = Random(0).sample(range(len(texts)), len(texts))
            results = translate(one, [texts[index] for index in order], size)
            return [result for _, result in sorted(zip(order, results, strict=True))]

        alone = translate(one, texts, 1)
        ways: dict[str, Callable[[], list[Result]]] = {
            "batches of 7": lambda: translate(one, texts, 7),
            "batches of 32": lambda: translate(one, texts, 32),
            "batches of 300": lambda: translate(one, texts, 300),
            "shuffled, batches of 32": lambda: shuffled(32),
            "two workers, batches of 300": lambda: translate(two, texts, 300),
        }
        for name, way in ways.items():
            print_row(num_beams, name, alone, way())


def print_row(num_beams: int, name: str, alone: list[Result], batched: list[Result]) -> None:
    pairs = list(zip(alone, batched, strict=True))
    tokens = sum(one[0] != other[0] for one, other in pairs)
    scores = sum(one[1] != other[1] for one, other in pairs)
    largest = max(abs(one[1] - other[1]) for one, other in pairs)
    print(f"| {num_beams} | {name} | {tokens} | {scores} | {largest:.1e} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    arguments = parser.parse_args()
    texts = arguments.sentences.read_text(encoding="utf-8").splitlines()[: arguments.lines]
    print(f"{arguments.bundle.name}, {len(texts)} sentences, {describe_environment().cpu}\n")
    print("| beams | | tokens differ | scores differ | largest |\n|---|---|---|---|---|")
    for num_beams in (1, 4):
        compare(arguments.bundle, texts, num_beams)


if __name__ == "__main__":
    main()
