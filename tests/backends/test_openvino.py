"""OpenVINO, built into its own onnxruntime: the same tokens as PyTorch, and quantized bundles within their limits."""

import json

import pytest
from tolerances import log_probability_rounding, network_rounding, score_rounding

from seq2edge import Translator
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle

LOGITS = network_rounding(load_bundle(DEFAULT_BUNDLE).manifest.architecture, size=20)
TEXTS = ["Good morning.", "Where is the nearest train station?", "I would have told you earlier if I had known."]


def test_the_default_model_returns_the_tokens_of_pytorch(bundles, command) -> None:
    arguments = ("--against", "models/en-pt", "--device", "openvino", "--strict-device", "--json")
    done = command("verify", bundles.fp32, *arguments)
    assert done.returncode == 0, done.stderr
    parity = json.loads(done.stdout)["parity"]
    assert (parity["device"], parity["sentences"]) == ("openvino", 20)
    assert parity["greedy_equal"] == parity["beam_equal"] == parity["top1_agreement"] == 1
    assert parity["logit_difference"] < LOGITS  # bfloat16 would differ by about 0.04


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_quantized_bundles_are_within_their_limits(bundles, command, lines, precision: str) -> None:
    arguments = ("--against", "models/en-pt", "--input", lines(*TEXTS), "--device", "openvino", "--json")
    done = command("verify", getattr(bundles, precision), *arguments)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("num_beams", [1, 4])
def test_translations_are_those_of_the_cpu(bundles, num_beams: int) -> None:
    with Translator(bundles.fp32, device="openvino", threads=1, strict_device=True) as translator:
        ours = translator.translate(TEXTS, num_beams=num_beams)
        assert translator.notes == []
    with Translator(bundles.fp32, threads=1) as translator:
        theirs = translator.translate(TEXTS, num_beams=num_beams)
    assert [one.tokens for one in ours] == [one.tokens for one in theirs]
    limit = score_rounding(max(len(one.tokens) for one in ours), log_probability_rounding(LOGITS))
    assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=limit)


def test_scores_of_given_translations_are_those_of_the_cpu(bundles) -> None:
    scores = []
    for device in ("openvino", "cpu"):
        with Translator(bundles.fp32, device=device, threads=1) as translator:
            scores.append(translator.score(TEXTS[:1], ["Bom dia."])[0].score)
    assert scores[0] == pytest.approx(scores[1], abs=score_rounding(4, log_probability_rounding(LOGITS)))


def test_providers_are_measured_side_by_side(bundles, command) -> None:
    devices = ("--device", "cpu", "--device", "openvino")
    done = command("bench", "-m", bundles.fp32, *devices, "--rounds", 1, "--new-tokens", 4, "--no-memory")
    assert done.returncode == 0, done.stderr
    assert "cpu and openvino, 1 thread, batch 1, greedy" in done.stdout
    assert "en-pt-fp32, openvino" in done.stdout


def test_a_bundle_with_fused_operators_names_the_export_that_would_run(command) -> None:
    done = command("translate", "--device", "openvino", "No!")
    assert done.returncode == 2
    assert "--dialect portable --precision int8" in done.stderr


def test_a_wrong_provider_option_is_one_sentence(bundles, command) -> None:
    done = command("translate", "-m", bundles.fp32, "--device", "openvino", "--provider-option", "abacus=1", "No!")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: the device 'openvino' cannot run")
    assert done.stderr.count("\n") == 1


def test_the_doctor_reports_that_it_works(command) -> None:
    found = {one["name"]: one for one in json.loads(command("doctor", "--json").stdout)["devices"]}
    assert (found["openvino"]["offered"], found["openvino"]["works"]) == ("built in", True)
