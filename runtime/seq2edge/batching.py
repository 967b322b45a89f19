"""Group sentences of like length, so that little of a batch is padding; needs nothing."""

from collections.abc import Sequence


def group_by_tokens(lengths: Sequence[int], *, batch_tokens: int) -> list[list[int]]:
    """Places of the sentences in each batch, longest first; a batch's rows times its longest stay within the limit."""
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    batches: list[list[int]] = []
    for place in order:
        if not batches or lengths[batches[-1][0]] * (len(batches[-1]) + 1) > batch_tokens:
            batches.append([])
        batches[-1].append(place)
    return batches
