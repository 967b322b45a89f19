"""Packing lists the tokens of a padded batch and puts them back."""

import torch

from seq2edge_export.model.token_packing import FEWEST, pack_tokens

LENGTHS = (6, 1, 4, 5)
MASK = torch.arange(8) < torch.tensor(LENGTHS)[:, None]  # two places more than the longest sentence


def test_packed_states_come_back_in_their_places() -> None:
    states = torch.randn(*MASK.shape, 3, generator=torch.Generator().manual_seed(0))
    packing = pack_tokens(MASK)
    unpacked = packing.unpack(packing.pack(states))
    assert unpacked.shape == states.shape
    assert torch.equal(unpacked[MASK], states[MASK])


def test_ids_are_listed_without_padding_but_a_short_sentence_keeps_some() -> None:
    ids = torch.arange(MASK.numel()).reshape(MASK.shape)
    packed = pack_tokens(MASK).pack_ids(ids)
    expected = [row * 8 + place for row, length in enumerate(LENGTHS) for place in range(max(length, FEWEST))]
    assert packed.tolist() == [expected]


def test_padding_takes_its_states_from_the_list() -> None:
    packing = pack_tokens(MASK)
    assert packing.rows.min() >= 0
    assert packing.rows.max() == packing.places.numel() - 1
