"""Tolerances of tests are derived from what is rounded (tests/support/tolerances.py), never plain numbers."""

import ast
from pathlib import Path

import numpy as np
import pytest
from tolerances import chain_rounding, sum_rounding

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests").rglob("*.py"))
COMPARISONS = {"approx", "assert_allclose", "assert_close", "allclose", "isclose"}


def plain_numbers(tree: ast.AST) -> list[int]:
    """Return the lines that compare within an absolute number other than 0."""
    return [
        call.lineno
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in COMPARISONS
        for keyword in call.keywords
        if keyword.arg in ("abs", "atol") and isinstance(keyword.value, ast.Constant) and keyword.value.value != 0
    ]


def test_no_comparison_has_a_plain_number_as_its_tolerance() -> None:
    found = {path.relative_to(ROOT).as_posix(): plain_numbers(ast.parse(path.read_text("utf-8"))) for path in FILES}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize("terms", [8, 40, 1000])
def test_sums_in_another_order_are_within_their_bounds(terms: int) -> None:
    """Forty log-probabilities of about -10, for example, whose sum has a rounding error of some 1e-4."""
    random = np.random.default_rng(terms)
    values = random.uniform(-20, 0, (50, terms)).astype(np.float32)
    size = np.abs(values).sum(axis=1).max()
    differences = [
        np.abs(np.cumsum(values, axis=1)[:, -1] - np.cumsum(values[:, random.permutation(terms)], axis=1)[:, -1]).max()
        for _ in range(20)
    ]
    assert 0 < max(differences) <= min(sum_rounding(terms, size), chain_rounding(terms, size))


def test_a_sum_that_lacks_a_term_is_not_within_its_bound() -> None:
    values = np.random.default_rng(0).uniform(-20, -1, 40).astype(np.float32)
    assert abs(values.sum() - values[1:].sum()) > 100 * sum_rounding(40, np.abs(values).sum())
