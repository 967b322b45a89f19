"""A few thousand hostile cases of every kind; the full number is run by hand, see docs/security.md."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from driver import GOOD, fuzz
from targets import SHARES

pytestmark = pytest.mark.trust
CASES = 3000
COVERED = Path(__file__).parents[1] / "fuzz" / "coverage.py"
# Cases that once ended badly: what they found is fixed.
FOUND = {
    # an unknown token that is not there, a vocabulary that is a number, a panic in Rust, pieces that are no text
    "tokenizers": (725, 2874, 6041, 12184),
    "manifests": (1658, 18560),  # a name that no file system takes, an id that no vocabulary has
    # endless errors, a bomb in a zip file, an id of 2^31, a width of 7.0, values without end, a header that breaks off,
    # thousands of missing tensors, an error that is not UTF-8
    "checkpoints": (61, 86, 120, 605, 791, 1794, 3728, 3803, 5284, 300198, 300416, 301128),
    "parsers": (7708,),  # a header that breaks off
    "graphs": (9924, 307634),  # an encoder that gives more than it says, a tensor of 100,000 axes
}


@pytest.mark.parametrize("target", SHARES)
def test_hostile_cases_end_in_an_answer_or_in_one_of_our_errors(target: str) -> None:
    [count] = fuzz({target: CASES * SHARES[target] // 100}, first=1_000_000).values()
    assert set(count.ends) <= set(GOOD), count


@pytest.mark.parametrize("target", FOUND)
def test_what_was_found_before_ends_well(target: str) -> None:
    for number in FOUND[target]:
        [count] = fuzz({target: 1}, first=number).values()
        assert set(count.ends) <= set(GOOD), (number, count)


@pytest.mark.parametrize("parser", ["graph", "manifest", "sentencepiece", "tokenizer", "marian", "shortlist"])
def test_inputs_that_reach_new_code_end_well_too(parser: str) -> None:
    pytest.importorskip("atheris")
    command = [sys.executable, str(COVERED), parser, "-runs=500", "-max_len=1500", "-timeout=10"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    [runs] = re.findall(r"^Done (\d+) runs", done.stderr, re.MULTILINE)
    assert int(runs) >= 500  # libFuzzer may end one run later
