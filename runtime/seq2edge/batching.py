"""Group sentences of like length, so that little of a batch is padding; needs nothing."""

from collections.abc import Sequence


def group(lengths: Sequence[int], *, batch_tokens: int, batch_size: int | None = None) -> list[list[int]]:
    """Places of the sentences in each batch, longest first.

    A batch has at most ``batch_size`` sentences, and these times the longest of them make at most ``batch_tokens``;
    a sentence longer than that is alone.
    """
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    batches: list[list[int]] = []
    for place in order:
        if not batches or not _fits(lengths[batches[-1][0]], len(batches[-1]) + 1, batch_tokens, batch_size):
            batches.append([])
        batches[-1].append(place)
    return batches


def _fits(longest: int, rows: int, batch_tokens: int, batch_size: int | None) -> bool:
    return longest * rows <= batch_tokens and (batch_size is None or rows <= batch_size)
