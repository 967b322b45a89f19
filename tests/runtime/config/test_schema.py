"""Settings are read strictly: one error lists every problem."""

from dataclasses import dataclass
from typing import Literal

import pytest

from seq2edge.config.schema import SchemaError, read_strict


@dataclass(frozen=True, kw_only=True)
class Inner:
    size: int


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    kind: Literal["a", "b"]
    inner: Inner
    rate: float = 0.5
    flag: bool = False
    ids: tuple[int, ...] = ()
    maybe: int | None = None
    table: dict[str, Inner] | None = None

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ValueError("rate is negative")


GOOD = {"name": "x", "kind": "a", "inner": {"size": 3}}


def test_a_valid_object_becomes_the_dataclass() -> None:
    value = {**GOOD, "rate": 1, "ids": [1, 2], "maybe": 4, "table": {"k": {"size": 1}}}
    expected = Outer(name="x", kind="a", inner=Inner(size=3), rate=1.0, ids=(1, 2), maybe=4, table={"k": Inner(size=1)})
    assert read_strict(Outer, value, where="it") == expected


def test_one_error_lists_all_problems() -> None:
    value = {"kind": "c", "inner": {"size": "3", "more": 1}, "flag": 1, "surplus": None}
    with pytest.raises(SchemaError) as caught:
        read_strict(Outer, value, where="it")
    text = str(caught.value)
    for part in ("'surplus'", "'name'", "it.kind", "it.inner.size", "'more'", "it.flag"):
        assert part in text


@pytest.mark.parametrize(
    "change",
    [
        {"rate": True},
        {"rate": "1"},
        {"ids": "12"},
        {"ids": [1, "2"]},
        {"maybe": 1.5},
        {"flag": 0},
        {"inner": []},
        {"kind": True},
        {"table": {"k": 1}},
        {"rate": -1},
        {"name": None},
    ],
)
def test_a_value_of_the_wrong_type_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(SchemaError):
        read_strict(Outer, {**GOOD, **change}, where="it")


@pytest.mark.parametrize("value", [None, 3, "x", [GOOD]])
def test_a_value_that_is_not_an_object_is_refused(value: object) -> None:
    with pytest.raises(SchemaError, match="should be an object"):
        read_strict(Outer, value, where="it")
