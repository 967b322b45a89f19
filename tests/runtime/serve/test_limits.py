"""Keys, rates and settings of the server."""

from pathlib import Path

import pytest

pytest.importorskip("starlette")

from seq2edge.errors import DataError
from seq2edge.serve.limits import MAX_COUNTED, ApiKeys, RateLimiter
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


def test_settings_are_checked() -> None:
    for wrong in ({"workers": 0}, {"port": 70_000}, {"time_limit": 0.0}, {"rate": -1}, {"threads": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ServeSettings(**wrong)


def test_languages_have_names() -> None:
    assert language_name("pt") == "Portuguese"
    assert language_name("pt_BR") == "Portuguese (BR)"
    assert language_name("zz") == "zz"
