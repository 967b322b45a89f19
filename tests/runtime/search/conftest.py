"""A decoder made of numpy that checks how the search calls it."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from seq2edge.config.generation import GenerationOptions
from seq2edge.search import DecoderState, StepOutput

Table = Callable[[int, tuple[int, ...]], Sequence[float]]  # sentence and tokens so far -> logits of the next token


class Decoder(DecoderState):
    """Follow every row through the calls and look up its logits by the tokens that the row has seen."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.before: list[list[tuple[int, tuple[int, ...]]]] = []  # sentence and tokens of each row of the last call
        self.calls: list[list[int]] = []  # the sentences of each call

    def step(self, tokens: np.ndarray, rows: np.ndarray) -> StepOutput:
        assert tokens.dtype == rows.dtype == np.int64
        assert tokens.shape[:2] == rows.shape
        now = [[self._row(*pair) for pair in zip(*both, strict=True)] for both in zip(tokens, rows, strict=True)]
        self._check(tokens, rows, [[sentence for sentence, _ in of_sentence] for of_sentence in now])
        self.calls.append([of_sentence[0][0] for of_sentence in now])
        self.before = [row for of_sentence in now for row in of_sentence]
        logits = [[self.table(*row) for row in of_sentence] for of_sentence in now]
        return StepOutput(np.array(logits, dtype=np.float32))

    def _row(self, tokens: np.ndarray, row: int) -> tuple[int, tuple[int, ...]]:
        sentence, seen = self.before[row] if self.calls else (int(row), ())
        return sentence, (*seen, *tokens.tolist())

    def _check(self, tokens: np.ndarray, rows: np.ndarray, sentences: list[list[int]]) -> None:
        living = [of_sentence[0] for of_sentence in sentences]
        assert all(len(set(of_sentence)) == 1 for of_sentence in sentences), "rows of one sentence come from another"
        assert living == sorted(set(living)), "a sentence came twice or out of order"
        if not self.calls:
            assert rows.shape[1] == 1, "the first call has one row for each sentence"
            return
        assert tokens.shape[2] == 1
        rows_before = len(self.before) // len(self.calls[-1])
        assert [self.calls[-1][place] for place in rows[:, 0] // rows_before] == living


def random_table(vocabulary: int = 8, *, sharpness: float = 2.0, end_bonus: float = 0.0) -> Table:
    """Logits that look random, but depend on nothing else than the sentence and its tokens; token 2 ends."""

    def table(sentence: int, tokens: tuple[int, ...]) -> np.ndarray:
        logits = np.random.default_rng([sentence, *tokens]).normal(scale=sharpness, size=vocabulary)
        logits[2] += end_bonus
        return logits

    return table


@pytest.fixture(scope="session")
def decoder() -> type[Decoder]:
    return Decoder


@pytest.fixture(scope="session")
def table() -> Callable[..., Table]:
    return random_table


@pytest.fixture(scope="session")
def options() -> Callable[..., GenerationOptions]:
    """Options with token 0 as start, 1 as padding and 2 as end."""

    def make(**given: object) -> GenerationOptions:
        ids = {"decoder_start_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
        return GenerationOptions(**{**ids, "max_new_tokens": 8, **given})

    return make
