"""Workloads and search options are the same for every system."""

import pytest

from seq2edge.bench.run import alternate
from seq2edge.bench.system import TimedOutputs
from seq2edge.bench.workload import BenchTexts, Workload, first_token_only, search_options
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import DataError, UsageError
from seq2edge.text.tokenizer import Tokenizer, bundle_tokenizer

OPTIONS = GenerationOptions(
    decoder_start_token_id=2, eos_token_id=3, pad_token_id=0, num_beams=4, max_new_tokens=256, forced_eos_token_id=3
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return bundle_tokenizer(load_bundle(DEFAULT_BUNDLE))


def test_built_in_sentences_are_repeated_to_fill_a_batch(tokenizer: Tokenizer) -> None:
    assert len(BenchTexts().work(tokenizer, longest=256, largest_batch=64).sources) == 64
    assert len(BenchTexts().work(tokenizer, longest=256, largest_batch=1).sources) == 24


def test_blank_lines_are_left_out_with_their_references(tokenizer: Tokenizer) -> None:
    work = BenchTexts(["Good morning.", " ", "Hello."], ["a", "b", "c"]).work(tokenizer, longest=256, largest_batch=2)
    assert len(work.sources) == 2
    assert work.references == ["a", "c"]


def test_a_line_that_is_too_long_is_named(tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError, match=r"sentence 2 has \d+ tokens, but the model reads at most 4"):
        BenchTexts(["No!", "Where is the nearest train station?"]).work(tokenizer, longest=4, largest_batch=1)


def test_a_batch_larger_than_the_sentences_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(UsageError, match="the batch size is 3, but there are only 2 sentences"):
        BenchTexts(["No!", "Yes!"]).work(tokenizer, longest=256, largest_batch=3)


def test_references_must_match_the_sentences() -> None:
    with pytest.raises(DataError, match="2 sentences, but 1 references"):
        BenchTexts(["a", "b"], ["c"])
    with pytest.raises(UsageError, match="give --input"):
        BenchTexts(None, ["c"])


def test_batches_hold_every_sentence_once_longest_first() -> None:
    work = Workload([[1], [1, 2, 3], [1, 2], [1, 2, 3, 4]])
    assert work.batches(2) == [[3, 1], [2, 0]]


def test_the_search_is_the_bundles_own_with_other_beams() -> None:
    found = search_options(OPTIONS, num_beams=1, longest=64)
    assert (found.num_beams, found.longest(1), found.shortest(1), found.forced_eos_token_id) == (1, 65, 0, None)
    assert found.early_stopping is True  # as CTranslate2 does, which has no other rule


def test_forced_lengths_are_exact_and_limited_by_the_model() -> None:
    found = search_options(OPTIONS, num_beams=1, longest=64, new_tokens=30)
    assert (found.longest(1), found.shortest(1)) == (31, 31)
    with pytest.raises(UsageError, match="at most 64"):
        search_options(OPTIONS, num_beams=1, longest=64, new_tokens=65)


def test_the_first_token_is_a_search_of_one_step() -> None:
    found = first_token_only(search_options(OPTIONS, num_beams=4, longest=64, new_tokens=30))
    assert (found.longest(1), found.shortest(1), found.num_beams) == (2, 2, 4)


class Echo:
    """A system that returns its input and records its turns."""

    def __init__(self, name: str, turns: list[str]) -> None:
        self.name, self.turns = name, turns

    def translate(self, sources: list[list[int]], options: GenerationOptions) -> TimedOutputs:
        if options.longest(1) > 2:
            self.turns.append(self.name)
        return TimedOutputs(sources, 0.5)

    def peak_memory(self) -> int | None:
        return None

    def close(self) -> None:
        pass


def test_systems_take_turns() -> None:
    turns: list[str] = []
    systems, work = {name: Echo(name, turns) for name in "AB"}, Workload([[5], [6, 7]])
    found = alternate(systems, dict.fromkeys("AB", work), dict.fromkeys("AB", OPTIONS), batch_size=2, rounds=3)
    assert "".join(turns) == "AB" + "ABABAB"
    assert found["A"].outputs == work.sources
    assert found["A"].round_seconds == [0.5, 0.5, 0.5]
    assert len(found["B"].first_latencies) == 3
