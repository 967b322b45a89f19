"""Copies of sentence pairs as people type them: without a full stop, in capitals, with a typing error, and so on."""

from collections.abc import Callable
from random import Random

from seq2edge_export.training.data import Pairs

Pair = tuple[str, str]  # source, target
Noise = Callable[[str, str, Random], Pair | None]  # nothing where it cannot be applied

MARKS = (".", "!", "?", "。", "！", "？")
LONGEST_SHOUT = 100  # characters; nobody types more in capitals
SYMBOL_BLOCKS = (range(0x1F300, 0x1F650), range(0x1F680, 0x1F6C6), range(0x2600, 0x2700), range(0x4E00, 0x5000))


def with_noise(pairs: Pairs, *, share: float, seed: int) -> Pairs:
    """Return the pairs followed by noisy copies of a random ``share`` of them; the same seed gives the same copies."""
    random = Random(seed)
    kinds: tuple[Noise, ...] = (without_mark, in_lower_case, in_capitals, with_typing_error, with_symbols)
    sources, targets = list(pairs.sources), list(pairs.targets)
    for index in sorted(random.sample(range(len(pairs)), round(share * len(pairs)))):
        pair = pairs.sources[index], pairs.targets[index]
        other = random.randrange(len(pairs))
        noisy = random.choice((*kinds, joined_with(pairs.sources[other], pairs.targets[other])))(*pair, random)
        if noisy is not None:
            sources.append(noisy[0])
            targets.append(noisy[1])
    return Pairs(pairs.path, sources, targets, pairs.skipped)


def without_mark(source: str, target: str, _: Random) -> Pair | None:
    """Omit the mark at the end of both sides."""
    if source.endswith(MARKS) and target.endswith(MARKS) and len(source) > 1 and len(target) > 1:
        return source[:-1], target[:-1]
    return None


def in_lower_case(source: str, target: str, _: Random) -> Pair | None:
    """Write the source in lower case; the target stays as it should be."""
    return (source.lower(), target) if source.lower() != source else None


def in_capitals(source: str, target: str, _: Random) -> Pair | None:
    """Write both sides in capitals."""
    return (source.upper(), target.upper()) if source.upper() != source and len(source) <= LONGEST_SHOUT else None


def with_typing_error(source: str, target: str, random: Random) -> Pair | None:
    """Swap, omit or double a letter inside a word of the source."""
    inside = [i for i in range(1, len(source) - 2) if source[i - 1 : i + 3].isalpha()]
    if not inside:
        return None
    at = random.choice(inside)
    typed = random.choice((source[at + 1] + source[at], source[at + 1], source[at] * 2 + source[at + 1]))
    return source[:at] + typed + source[at + 2 :], target


def with_symbols(source: str, target: str, random: Random) -> Pair | None:
    """Add the same one to three symbols to both sides: most are no pieces, so the model learns to copy their bytes."""
    block = random.choice(SYMBOL_BLOCKS)
    symbols = "".join(chr(random.choice(block)) for _ in range(random.randint(1, 3)))
    if random.random() < 0.2:
        return f"{symbols} {source}", f"{symbols} {target}"
    return f"{source} {symbols}", f"{target} {symbols}"


def joined_with(other_source: str, other_target: str) -> Noise:
    """Return a noise that adds another sentence."""

    def joined(source: str, target: str, _: Random) -> Pair | None:
        if not (source.endswith(MARKS) and target.endswith(MARKS)):
            return None
        return f"{source} {other_source}", f"{target} {other_target}"

    return joined
