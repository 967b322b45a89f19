"""Make the training and dev sets of the English-Portuguese model from distilled pairs.

    python models/en-pt/training_data.py distilled.tsv.xz --train train.tsv --dev dev.tsv

Reads ``English<TAB>Portuguese`` lines. Writes every good pair once, variants of some in the ways people type, pairs in
which names and numbers are exchanged, and filled templates (``templates.py``) of what must be copied. A dev set is held
back: no pair of it, in whatever case and punctuation, is in the training set. The same input and seed give the same
files.
"""

import argparse
import lzma
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import templates

Pair = tuple[str, str]  # English, Portuguese
Variant = Callable[[str, str, Random], Pair | None]  # nothing where it does not fit

SEED = 20261117
DEV_PAIRS = 600
TEMPLATE_SHARE = 0.04  # of the good pairs
JOINED_SHARE = 0.06

ENDS = (".", "!", "?")
NOTES = (
    templates.mail,
    templates.url,
    templates.number,
    templates.price,
    templates.full_name,
    templates.foreign,
)


def read_pairs(path: Path) -> list[Pair]:
    """All lines with two columns."""
    opened = lzma.open if path.suffix == ".xz" else open
    with opened(path, "rt", encoding="utf-8", newline="\n") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    return [(row[0].strip(), row[1].strip()) for row in rows if len(row) == 2]


# What is left out


def problem_of(source: str, target: str) -> str | None:
    """Why a pair is not good to learn from."""
    if not source or not target:
        return "empty"
    if not 0.4 <= (len(target) + 8) / (len(source) + 8) <= 2.2:
        return "lengths"
    if source.casefold() == target.casefold() and len(source.split()) > 3:
        return "copy"
    if loops(target) > loops(source):
        return "loop"
    if numbers_of(source) != numbers_of(target):
        return "numbers"
    if source.count("@") != target.count("@"):
        return "addresses"
    if not all(word in target for word in foreign_words(source)):
        return "letters that the teacher does not know"
    return None


def loops(text: str) -> int:
    """How often a word, or a group of two to four, follows itself three times."""
    return len(re.findall(r"(\b\S+(?: \S+){0,3})(?: \1){2,}", text.lower()))


def numbers_of(text: str) -> list[str]:
    """All runs of digits: separators may differ, and so may their order."""
    return sorted(re.findall(r"\d+", text))


def foreign_words(text: str) -> list[str]:
    """Words with letters that are not of English: names, mostly."""
    words = re.findall(r"[^\W\d_]+", text)
    return [word for word in words if not word.isascii()]


def key_of(source: str) -> str:
    """What all duplicates of a sentence share."""
    return "".join(letter for letter in source.casefold() if letter.isalnum())


def good_pairs(pairs: Iterable[Pair], counts: Counter[str]) -> list[Pair]:
    """The pairs without a problem, each source once."""
    seen: set[str] = set()
    good = []
    for source, target in pairs:
        problem = "duplicate" if source in seen else problem_of(source, target)
        seen.add(source)
        counts[f"dropped: {problem}" if problem else "good"] += 1
        if not problem:
            good.append((source, target))
    return good


def hold_back(pairs: list[Pair], count: int, random: Random) -> tuple[list[Pair], list[Pair]]:
    """Take a dev set out of the pairs; what has the same letters as a source in it goes out too."""
    dev = [pairs[place] for place in sorted(random.sample(range(len(pairs)), count))]
    held = {key_of(source) for source, _ in dev}
    return [pair for pair in pairs if key_of(pair[0]) not in held], dev


# What people type


def without_stop(source: str, target: str, _: Random) -> Pair | None:
    """No mark at the end of either side."""
    for end in ENDS:
        if source.endswith(end) and target.endswith(end) and not source.endswith((end * 2, " p.m.", " a.m.")):
            return source[:-1], target[:-1]
    return None


def lower_case(source: str, target: str, _: Random) -> Pair | None:
    """A source without capitals; the target is as it should be."""
    lowered = source.lower()
    return (lowered, target) if lowered != source and len(source) < 160 else None


def hasty(source: str, target: str, random: Random) -> Pair | None:
    """Neither capitals nor a mark at the end."""
    bare = without_stop(source, target, random)
    return lower_case(*bare, random) if bare else None


def capitals(source: str, target: str, _: Random) -> Pair | None:
    """All in capitals, on both sides."""
    return (source.upper(), target.upper()) if len(source) < 100 and source[0].isupper() else None


# What must be copied


def renamed(source: str, target: str, random: Random) -> Pair | None:
    """Tom and Mary, who are all over Tatoeba, become other people."""
    replaced = source, target
    for name, other in (("Tom", templates.man), ("Mary", templates.woman)):
        counts = [len(re.findall(rf"\b{name}\b", side)) for side in replaced]
        if counts[0] != counts[1]:
            return None
        new = templates.made_up(random) if random.random() < 0.25 else other(random)
        new += f" {templates.surname(random)}" if random.random() < 0.15 else ""
        replaced = re.sub(rf"\b{name}\b", new, replaced[0]), re.sub(rf"\b{name}\b", new, replaced[1])
    return replaced if replaced != (source, target) else None


def renumbered(source: str, target: str, random: Random) -> Pair | None:
    """Another number of as many digits, where one alone stands on both sides."""
    found = [re.findall(r"(?<![\w.,:/$-])\d{2,6}(?![\w,:/-]|\.\d)", side) for side in (source, target)]
    if len(found[0]) != 1 or found[0] != found[1] or len(numbers_of(source)) != 1:
        return None
    old = found[0][0]
    new = str(random.randrange(10 ** (len(old) - 1), 10 ** len(old)))
    return source.replace(old, new), target.replace(old, new)


def with_emoji(source: str, target: str, random: Random) -> Pair | None:
    """An emoji or more at the end of both sides, or at the beginning."""
    sign = "".join(templates.emoji(random) for _ in range(random.choice((1, 1, 1, 2, 3))))
    if random.random() < 0.2:
        return f"{sign} {source}", f"{sign} {target}"
    joint = " " if random.random() < 0.85 else ""
    return f"{source}{joint}{sign}", f"{target}{joint}{sign}"


def with_note(source: str, target: str, random: Random) -> Pair | None:
    """An address, a number or a name in brackets before the last mark, or behind a colon."""
    if not (source.endswith(".") and target.endswith(".")) or len(source) > 120:
        return None
    text = random.choice(NOTES)(random)
    if random.random() < 0.25:
        return f"{source[:-1]}: {text}", f"{target[:-1]}: {text}"
    return f"{source[:-1]} ({text}).", f"{target[:-1]} ({text})."


VARIANTS: dict[str, tuple[Variant, float]] = {  # with the share of all pairs that are tried
    "without stop": (without_stop, 0.08),
    "lower case": (lower_case, 0.05),
    "hasty": (hasty, 0.05),
    "capitals": (capitals, 0.04),
    "renamed": (renamed, 0.35),  # one pair of nine has one of the names
    "renumbered": (renumbered, 0.5),  # few have a number
    "with emoji": (with_emoji, 0.012),
    "with note": (with_note, 0.015),
}


def variants(pairs: list[Pair], name: str) -> list[Pair]:
    """One kind of variant of some of the pairs."""
    change, share = VARIANTS[name]
    random = Random(f"{SEED} {name}")
    tried = (change(*pair, random) for pair in pairs if random.random() < share)
    return [found for found in tried if found]


def joined(pairs: list[Pair], count: int) -> list[Pair]:
    """Two or three sentences that do not belong together, side by side in both languages."""
    random = Random(f"{SEED} joined")
    whole = [pair for pair in pairs if pair[0].endswith(ENDS) and pair[1].endswith(ENDS) and pair[0][0].isupper()]
    made = []
    for _ in range(count):
        parts = random.sample(whole, random.choice((2, 2, 2, 3)))
        if sum(len(source) for source, _ in parts) <= 260:
            made.append((" ".join(part[0] for part in parts), " ".join(part[1] for part in parts)))
    return made


def training_set(pairs: list[Pair], counts: Counter[str]) -> list[Pair]:
    """All pairs, their variants, and the templates."""
    parts = {name: variants(pairs, name) for name in VARIANTS}
    parts["joined"] = joined(pairs, round(len(pairs) * JOINED_SHARE))
    short = [pair for pair in parts["joined"] if len(pair[0]) < 120]
    parts["joined without stop"] = variants(short, "without stop") + variants(short, "hasty")
    parts["templates"] = templates.pairs_of_templates(Random(f"{SEED} templates"), round(len(pairs) * TEMPLATE_SHARE))
    typed = parts["templates"]
    parts["templates without stop"] = variants(typed, "without stop")
    for name, made in parts.items():
        counts[f"added: {name}"] = len(made)
    return [*pairs, *(pair for made in parts.values() for pair in made)]


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{source}\t{target}\n" for source, target in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("distilled", type=Path, help="English<TAB>Portuguese lines, plain or .xz")
    parser.add_argument("--train", type=Path, required=True, help="file to write the training set to")
    parser.add_argument("--dev", type=Path, required=True, help="file to write the dev set to")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    good = good_pairs(read_pairs(options.distilled), counts)
    pairs, dev = hold_back(good, DEV_PAIRS, Random(f"{SEED} dev"))
    train = training_set(pairs, counts)
    write_pairs(options.dev, dev)
    write_pairs(options.train, train)
    counts.update({"dev": len(dev), "pairs": len(pairs), "train": len(train)})
    sys.stdout.writelines(f"{count:9,} {name}\n" for name, count in counts.items())


if __name__ == "__main__":
    main()
