"""The batcher by itself: merging, turns, options, cancelling and bounds."""

import asyncio
from collections.abc import Iterator

import pytest

from seq2edge import Translator
from seq2edge.errors import UsageError
from seq2edge.serve.batcher import Batcher
from seq2edge.serve.settings import ApiError

TEXTS = ["The house is red.", "Good morning.", "Where is the station?", "I do not know. Do you?", ""]


@pytest.fixture(scope="module")
def translator() -> Iterator[Translator]:
    with Translator(threads=1) as found:
        yield found


async def translated(batcher: Batcher, translator: Translator, text: str, **options: object) -> str:
    return (await batcher.translate(translator, translator.split([text], **options)))[0].text


def test_what_waits_is_merged_and_every_answer_is_that_of_the_translator(translator: Translator) -> None:
    sizes: list[int] = []

    async def run() -> list[str]:
        batcher = Batcher(observe=sizes.append)
        found = await asyncio.gather(*(translated(batcher, translator, text) for text in TEXTS * 4))
        batcher.close()
        return found

    assert asyncio.run(run()) == translator(TEXTS * 4)
    assert sum(sizes) == 4 * 5  # sentences; nothing to do for the empty text
    assert len(sizes) < 20


def test_only_equal_options_share_a_batch(translator: Translator) -> None:
    sizes: list[int] = []

    async def run() -> list[str]:
        batcher = Batcher(observe=sizes.append)
        options = ({"num_beams": beams} for beams in (1, 2, 3))
        found = await asyncio.gather(*(translated(batcher, translator, TEXTS[0], **one) for one in options))
        batcher.close()
        return found

    expected = [translator(TEXTS[0], num_beams=beams) for beams in (1, 2, 3)]
    assert asyncio.run(run()) == expected
    assert sizes == [1, 1, 1]


def test_samples_without_a_seed_are_not_merged(translator: Translator) -> None:
    sizes: list[int] = []

    async def run() -> None:
        batcher = Batcher(observe=sizes.append)
        options = {"do_sample": True, "num_beams": 1, "max_new_tokens": 5}
        await asyncio.gather(*(translated(batcher, translator, TEXTS[0], **options) for _ in range(3)))
        batcher.close()

    asyncio.run(run())
    assert sizes == [1, 1, 1]


def test_a_short_text_is_done_long_before_a_long_one(translator: Translator) -> None:
    sizes: list[int] = []

    async def run() -> int:
        batcher = Batcher(observe=sizes.append)
        long = asyncio.create_task(translated(batcher, translator, " ".join(["The house is red."] * 400)))
        await asyncio.sleep(0)
        while not sizes:
            await asyncio.sleep(0.001)
        await translated(batcher, translator, TEXTS[1])
        done = sum(sizes)
        assert not long.done()
        long.cancel()
        await asyncio.wait([long])
        while batcher.waiting:
            await asyncio.sleep(0.001)
        batcher.close()
        return done

    assert asyncio.run(run()) < 200
    assert sum(sizes) < 300  # the rest of the cancelled text is dropped


def test_a_stream_is_pieces_of_the_translation(translator: Translator) -> None:
    text = " ".join(TEXTS)

    async def run(batcher: Batcher) -> list[str]:
        pieces = [piece async for piece in batcher.stream(translator, translator.split([text]))]
        await asyncio.gather(*(translated(batcher, translator, one) for one in TEXTS))
        batcher.close()
        return pieces

    for merge in (True, False):
        pieces = asyncio.run(run(Batcher(workers=2, merge=merge)))
        assert len(pieces) > 5
        assert "".join(pieces) == translator(text)


def test_idle_workers_share_what_has_arrived(translator: Translator) -> None:
    sizes: list[int] = []

    async def run() -> list[str]:
        batcher = Batcher(workers=2, observe=sizes.append)
        await asyncio.sleep(0.05)  # both wait
        found = await asyncio.gather(*(translated(batcher, translator, TEXTS[0]) for _ in range(12)))
        batcher.close()
        return found

    assert asyncio.run(run()) == [translator(TEXTS[0])] * 12
    assert sizes == [6, 6]


def test_requests_that_become_jobs_one_after_the_other_share_a_batch(translator: Translator) -> None:
    sizes: list[int] = []

    async def late(batcher: Batcher, turns: int) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        return await translated(batcher, translator, TEXTS[0])

    async def run() -> None:
        batcher = Batcher(observe=sizes.append)
        await asyncio.gather(*(late(batcher, turns) for turns in range(10)))
        batcher.close()

    asyncio.run(run())
    assert sizes == [10]


def test_too_many_requests_are_refused(translator: Translator) -> None:
    async def run() -> list[object]:
        batcher = Batcher(max_waiting=3)
        works = [translated(batcher, translator, " ".join(TEXTS * 9)) for _ in range(8)]
        found = await asyncio.gather(*works, return_exceptions=True)
        batcher.close()
        return found

    found = asyncio.run(run())
    refused = [one for one in found if isinstance(one, ApiError)]
    assert refused
    assert {one.status for one in refused} == {503}
    assert {one for one in found if isinstance(one, str)} == {translator(" ".join(TEXTS * 9))}


def test_an_error_reaches_those_whom_it_concerns_alone(translator: Translator) -> None:
    async def run() -> list[object]:
        batcher = Batcher()
        closed = Translator(threads=1)
        split = closed.split(["Good morning."])
        closed.close()
        works = [batcher.translate(closed, split), translated(batcher, translator, TEXTS[0])]
        found = await asyncio.gather(*works, return_exceptions=True)
        batcher.close()
        return found

    failed, fine = asyncio.run(run())
    assert isinstance(failed, UsageError)
    assert fine == translator(TEXTS[0])
