"""The default model with a shortlist: exact with all target tokens, and independent of the batch."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tolerances import int8_rounding, log_probability_rounding, log_softmax_rounding, score_rounding

from seq2edge import Translator
from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, Bundle, load_bundle
from seq2edge.cli.main import main
from seq2edge.engine.shortlist import Shortlist, shortlist_of
from seq2edge.errors import BundleError
from seq2edge_graphs.shortlist.bundle import add_shortlist

TEXTS = [
    "Good morning.",
    "She scowled at the rude salesman.",
    "Tom knows the situation better than I do.",
    "I have two brothers and a sister, and all of them live in Boston.",
    "No.",
]
VOCABULARY = 8000
SCORES = log_softmax_rounding(VOCABULARY, 20)  # exponentials are summed in another order
INT8 = log_probability_rounding(int8_rounding(width=256, size=10))  # attention may be, in a batch


def all_tokens(bundle: Bundle) -> Shortlist:
    return shortlist_of([], np.arange(VOCABULARY), VOCABULARY)


def some_tokens(bundle: Bundle) -> Shortlist:
    random = np.random.default_rng(0)
    return shortlist_of([random.choice(VOCABULARY, 60, replace=False) for _ in range(VOCABULARY)], [3], VOCABULARY)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return add_shortlist(DEFAULT_BUNDLE, tmp_path_factory.mktemp("whole") / "bundle", all_tokens).folder


@pytest.fixture(scope="module")
def restricted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return add_shortlist(DEFAULT_BUNDLE, tmp_path_factory.mktemp("restricted") / "bundle", some_tokens).folder


@pytest.mark.parametrize("beams", [1, 4])
def test_a_shortlist_of_the_whole_vocabulary_changes_nothing(whole: Path, beams: int) -> None:
    with_list, without = (
        Translator(whole, threads=1, shortlist=used).translate(TEXTS, num_beams=beams) for used in (True, False)
    )
    assert [one.tokens for one in with_list] == [one.tokens for one in without]
    for one, other in zip(with_list, without, strict=True):
        assert one.token_scores == pytest.approx(other.token_scores, abs=SCORES)


@pytest.mark.parametrize(
    "options", [{"num_beams": 1}, {"num_beams": 3}, {"do_sample": True, "seed": 1, "num_beams": 1}]
)
def test_a_translation_does_not_depend_on_the_batch(restricted: Path, options: dict[str, int]) -> None:
    translator = Translator(restricted, threads=1)
    sampled = "do_sample" in options  # samples depend on the index of the text: only the first has the same alone
    together = translator.translate(TEXTS, max_new_tokens=12, **options)
    alone = [translator.translate([text], max_new_tokens=12, **options)[0] for text in TEXTS[: 1 if sampled else None]]
    for one, other in zip(alone, together, strict=not sampled):
        assert one.tokens == other.tokens
        assert one.score == pytest.approx(other.score, abs=score_rounding(len(one.tokens), INT8))


def test_only_listed_tokens_are_generated(restricted: Path) -> None:
    translator = Translator(restricted, threads=1)
    table, sources = some_tokens(translator.bundle), translator.tokenizer.encode(TEXTS)
    for source, result in zip(sources, translator.translate(TEXTS, max_new_tokens=12), strict=True):
        assert table.allowed([source])[0, list(result.tokens)].all()


def test_a_hook_and_a_stream_work_with_ids(restricted: Path) -> None:
    translator = Translator(restricted, threads=1)
    [plain] = translator.translate(TEXTS[:1], max_new_tokens=8)
    [hooked] = translator.translate(TEXTS[:1], max_new_tokens=8, hook=lambda sentences, tokens, scores: scores)
    assert hooked.tokens == plain.tokens
    stream = translator.stream(TEXTS[0], max_new_tokens=8)
    assert "".join(stream) == plain.text


def test_weights_are_stored_once(whole: Path) -> None:
    assert (whole / tensor_names.WEIGHTS).read_bytes() == (DEFAULT_BUNDLE / tensor_names.WEIGHTS).read_bytes()
    assert (whole / tensor_names.SHORT_DECODER).stat().st_size < 40_000


def test_a_shortlist_of_another_model_is_refused(whole: Path, tmp_path: Path) -> None:
    made = add_shortlist(DEFAULT_BUNDLE, tmp_path / "bundle", lambda bundle: shortlist_of([], [3], 5))
    with pytest.raises(BundleError, match="is for a vocabulary of 5"):
        Translator(made.folder, threads=1)


def test_a_manifest_must_list_the_graphs_of_a_shortlist(restricted: Path, tmp_path: Path) -> None:
    made = add_shortlist(restricted, tmp_path / "bundle", some_tokens)  # replaces the shortlist
    (made.folder / tensor_names.WORDS_GRAPH).unlink()
    manifest = json.loads((made.folder / tensor_names.MANIFEST).read_text(encoding="utf-8"))
    del manifest["files"][tensor_names.WORDS_GRAPH]
    (made.folder / tensor_names.MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(BundleError, match=r"does not name words\.onnx"):
        load_bundle(made.folder)


def test_the_command_reports_the_number_of_pairs(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("Good morning.\tBom dia.\nGood night.\tBoa noite.\n" * 5, encoding="utf-8")
    run = CliRunner().invoke(main, ["shortlist", str(DEFAULT_BUNDLE), str(tmp_path / "made"), "--learn", str(pairs)])
    assert run.exit_code == 0, run.output
    assert "learned from 10 pairs" in run.output
    shown = CliRunner().invoke(main, ["inspect", str(tmp_path / "made")])
    assert "shortlist" in shown.output
    [result] = Translator(tmp_path / "made", threads=1).translate(["Good morning."])
    assert result.text == "Bom dia."


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "either --marian or --learn"),
        (["--marian", "a", "--learn", "b"], "either --marian or --learn"),
        (["--marian", "a", "--best", "3"], "only used with --learn"),
        (["--learn", "bad.tsv"], "line 1 has 1 columns"),
        (["--marian", "bad.tsv"], "cannot be used as a shortlist"),
    ],
)
def test_usage_errors_are_reported_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.tsv").write_text("no tab\n")
    run = CliRunner().invoke(main, ["shortlist", str(DEFAULT_BUNDLE), "made", *arguments])
    assert run.exit_code == 2
    assert reason in run.output
    assert [path.name for path in tmp_path.iterdir()] == ["bad.tsv"]
