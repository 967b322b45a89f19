"""Keys, rates and settings of the server."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from starlette.types import Message

from seq2edge.errors import DataError
from seq2edge.serve.limits import BODIES, MAX_COUNTED, ApiKeys, Bodies, RateLimiter
from seq2edge.serve.settings import ApiError, ServeSettings, language_name


def test_a_key_has_its_rate_and_others_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# keys of the team\nfirst\nsecond 30 # a robot\n\n", encoding="utf-8")
    keys = ApiKeys(path)
    assert keys.rate("first") is None
    assert keys.rate("second") == 30
    for wrong in ("", "#", "third", "first ", "second 30"):
        with pytest.raises(ApiError, match="API key"):
            keys.rate(wrong)


@pytest.mark.parametrize("line", ["key many", "key 1 2", "key -1"])
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "keys").write_text(f"good\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2 of"):
        ApiKeys(tmp_path / "keys")


def test_a_rate_is_refilled_as_time_goes_by() -> None:
    now = [0.0]
    limiter = RateLimiter(lambda: now[0])
    for _ in range(6):
        limiter.count("a", 6)
    with pytest.raises(ApiError) as refused:
        limiter.count("a", 6)
    assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "10"})
    limiter.count("b", 6)
    now[0] = 10.0
    limiter.count("a", 6)
    with pytest.raises(ApiError):
        limiter.count("a", 6)


def test_the_clients_that_are_counted_are_bounded() -> None:
    limiter = RateLimiter()
    for number in range(MAX_COUNTED + 10):
        limiter.count(str(number), 5)
    assert len(limiter._buckets) == MAX_COUNTED


def test_all_bodies_together_are_bounded() -> None:
    async def run() -> list[int]:
        bodies = Bodies(ServeSettings(max_body=10))

        async def part() -> Message:
            return {"type": "http.request", "body": b"x" * 9, "more_body": True}

        statuses = []
        with ExitStack() as requests:
            for _ in range(BODIES + 5):
                receive = requests.enter_context(bodies.receiving(part))
                try:
                    await receive()
                except ApiError as error:
                    statuses.append(error.status)
        with bodies.receiving(part) as receive:
            await receive()
            with pytest.raises(ApiError, match="more than 10 bytes"):
                await receive()
        return [*statuses, bodies.size]

    assert asyncio.run(run()) == [503, 503, 0]  # 35 of 9 bytes are 5 less than 32 of 10


def test_settings_are_checked() -> None:
    for wrong in ({"workers": 0}, {"port": 70_000}, {"time_limit": 0.0}, {"rate": -1}, {"threads": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ServeSettings(**wrong)


def test_languages_have_names() -> None:
    assert language_name("pt") == "Portuguese"
    assert language_name("pt_BR") == "Portuguese (BR)"
    assert language_name("zz") == "zz"
