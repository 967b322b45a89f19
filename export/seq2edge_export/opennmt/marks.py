"""The special tokens of a checkpoint of OpenNMT-py or eole; needs nothing."""

from seq2edge.architecture import Architecture
from seq2edge.errors import CheckpointError
from seq2edge.tokens import SpecialTokens
from seq2edge_export.opennmt.given import UNK, Given


def special_tokens(given: Given, shape: Architecture) -> SpecialTokens:
    """The ids of the marks; a token that is not known has the same id on both sides."""
    words = given.words
    source, target = ({token: number for number, token in enumerate(side)} for side in (words.source, words.target))
    missing = [repr(token) for token in (words.start, words.eos) if token not in target]
    if missing:
        raise CheckpointError(
            f"{given.path} has no {' and no '.join(missing)} among its target tokens, with which outputs start or end"
        )
    _check_sizes(given, shape)
    eos, unk = target[words.eos], target.get(UNK, 0)  # without it, eole takes the first token
    if source.get(UNK, 0) != unk:
        raise CheckpointError(
            f"{UNK!r} has the id {source.get(UNK, 0)} in the source vocabulary of {given.path} and {unk} in the "
            "target's, but one id is wanted"
        )
    pad = target.get(words.pad, eos)
    return SpecialTokens(pad=pad if pad < shape.source_vocabulary else unk, bos=target[words.start], eos=eos, unk=unk)


def _check_sizes(given: Given, shape: Architecture) -> None:
    sizes = {
        "source": (len(given.words.source), shape.source_vocabulary),
        "target": (len(given.words.target), shape.target_vocabulary),
    }
    wrong = [
        f"{tokens} {side} tokens, but its model {size}" for side, (tokens, size) in sizes.items() if tokens != size
    ]
    if wrong:
        raise CheckpointError(f"{given.path} has {'; '.join(wrong)}")
