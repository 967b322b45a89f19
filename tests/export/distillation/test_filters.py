import pytest

from seq2edge.errors import UsageError
from seq2edge_export.distillation.filters import FilterSettings, Label, problem_of, usual_ratio

GOOD = Label("See you tomorrow at 8.", "Bis morgen um 8.", score=-0.2, ended=True, repeats=False, unknown=0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"target": " "}, "empty"),
        ({"ended": False}, "cut at the length limit"),
        ({"repeats": True}, "loop"),
        ({"unknown": 1}, "unknown characters"),
        ({"target": "see you TOMORROW at 8."}, "copy"),
        ({"source": "Tom 8", "target": "Tom 8"}, ""),
        ({"target": "Bis morgen um 8, " + "ja " * 20}, "length"),
        ({"target": "8"}, "length"),
        ({"target": "Bis morgen um 9."}, "numbers"),
        ({"target": "Bis morgen."}, "numbers"),
        ({"source": "It cost 1,000.5 dollars.", "target": "Es kostete 1.000,5 Dollar."}, ""),
        ({"score": -1.6}, "low score"),
    ],
)
def test_the_reason_to_drop_a_pair(changes: dict[str, object], reason: str) -> None:
    assert problem_of(GOOD._replace(**changes), FilterSettings(), usual=1.0) == reason


def test_lengths_are_compared_with_the_usual_ratio_of_the_languages() -> None:
    labels = [GOOD._replace(source="x" * 100, target="y" * 25)] * 9
    usual = usual_ratio(labels)
    assert problem_of(labels[0], FilterSettings(), usual=usual) == ""
    assert problem_of(labels[0]._replace(target="y" * 100), FilterSettings(), usual=usual) == "length"
    assert usual_ratio([]) == 1.0


@pytest.mark.parametrize(
    ("name", "value"), [("max_length_ratio", 1.0), ("max_length_ratio", float("nan")), ("min_score", 0.0)]
)
def test_settings_that_make_no_sense_are_refused(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} is "):
        FilterSettings(**{name: value})
