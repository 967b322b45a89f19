"""``seq2edge inspect`` shows the contents of a bundle or an ONNX file as text and as JSON."""

import json
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, Bundle, load_bundle
from seq2edge.bundle.onnx_file import Tensor, read_onnx
from seq2edge.cli.report import bundle_facts, constants_by_type, describe_bundle


def inspect(*arguments: object) -> str:
    program = [sys.executable, "-m", "seq2edge", "inspect", *map(str, arguments)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(text: str) -> list[tuple[str, ...]]:
    return [tuple(part.strip() for part in line.split("  ", 1)) for line in text.splitlines()]


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return load_bundle(DEFAULT_BUNDLE)


def counted(operators: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in operators.items())


def test_a_bundle_shows_its_operators_and_constants(bundle: Bundle) -> None:
    found = rows(inspect(DEFAULT_BUNDLE))
    shown = dict(found)
    assert shown["encoder operators"] == counted(read_onnx(DEFAULT_BUNDLE / tensor_names.ENCODER).operators)
    assert shown["decoder operators"] == counted(read_onnx(DEFAULT_BUNDLE / tensor_names.DECODER).operators)
    numbers = int(shown["int8 constants"].split(" in ")[0].replace(",", ""))
    assert 0.9 < numbers / bundle.manifest.parameters < 1  # all but biases and norms
    assert "at 25 source and 25 target tokens" in shown["cache of a sentence"]
    order = [name for name, *_ in found]
    assert order.index("encoder operators") < order.index("decoder operators")


def test_a_constant_that_both_graphs_use_counts_once(bundle: Bundle) -> None:
    facts = bundle_facts(bundle, source_length=25, target_length=25)
    external = sum(found["bytes"] for found in facts["constants"])
    weights = (DEFAULT_BUNDLE / tensor_names.WEIGHTS).stat().st_size
    assert weights * 0.95 < external <= weights * 1.01  # padding in the file; scalars that are not in it
    each = [found for graph in facts["graphs"].values() for found in graph["constants"] if found["type"] == "int8"]
    assert sum(found["bytes"] for found in each) > sum(f["bytes"] for f in facts["constants"] if f["type"] == "int8")


def test_constants_with_different_data_are_distinct() -> None:
    def constant(name: str, location: str, offset: int) -> Tensor:
        return Tensor(name=name, type="int8", dims=(2, 3), bytes=6, location=location, offset=offset)

    tensors = [constant("a", "w", 0), constant("b", "w", 0), constant("c", "w", 8), constant("d", "v", 0)]
    inside = [constant("a", "", 0), constant("a", "", 0)]
    [found] = constants_by_type([*tensors, *inside])
    assert (found.type, found.count, found.numbers, found.bytes) == ("int8", 5, 30, 30)


def test_the_largest_constants_come_first() -> None:
    tensors = [Tensor(name="a", type="int8", dims=(8,), bytes=8), Tensor(name="b", type="int64", dims=(2,), bytes=16)]
    assert [found.type for found in constants_by_type(tensors)] == ["int64", "int8"]


def test_a_file_shows_its_inputs_outputs_operators_and_constants(bundle: Bundle) -> None:
    path = DEFAULT_BUNDLE / tensor_names.DECODER
    found = rows(inspect(path))
    shown = dict(found)
    assert shown["file"] == str(path)
    assert shown["size"] == f"{path.stat().st_size / 1000:.1f} kB"
    assert shown["opset"] == f"{bundle.manifest.opset}, com.microsoft 1"
    assert shown["producer"].startswith("pytorch 2.")
    assert ("input", "target int64 [batch, rows_per_sentence, new_length]") in found
    assert any(name == "output" and value.startswith("logits float32 [wanted_rows, ") for name, value in found)
    assert shown["operators"] == counted(read_onnx(path).operators)
    assert " tensors, " in shown["int8 constants"]
    assert shown["data in"] == tensor_names.WEIGHTS


def test_json_of_a_bundle_has_its_manifest_and_derived_facts() -> None:
    facts = json.loads(inspect("--json", "--source-length", 10, "--target-length", 20))
    assert facts["manifest"] == json.loads((DEFAULT_BUNDLE / tensor_names.MANIFEST).read_text(encoding="utf-8"))
    assert facts["size"] == sum(path.stat().st_size for path in DEFAULT_BUNDLE.iterdir())
    shape = facts["manifest"]["architecture"]
    assert facts["cost"]["cache_bytes_per_sentence"] == 2 * shape["decoder_layers"] * (10 + 20) * shape["width"] * 4
    assert facts["cost"]["operations_per_source_token"] > 2 * shape["encoder_layers"] * shape["width"] ** 2
    assert list(facts["graphs"]) == [tensor_names.ENCODER, tensor_names.DECODER, tensor_names.SCORER]
    assert facts["graphs"][tensor_names.ENCODER] == json.loads(inspect("--json", DEFAULT_BUNDLE / tensor_names.ENCODER))


def test_json_of_a_file_has_what_is_shown(bundle: Bundle) -> None:
    facts: dict[str, Any] = json.loads(inspect(DEFAULT_BUNDLE / tensor_names.DECODER, "--json"))
    file = read_onnx(DEFAULT_BUNDLE / tensor_names.DECODER)
    assert facts["opsets"] == {"ai.onnx": bundle.manifest.opset, "com.microsoft": 1}
    assert facts["inputs"][1] == {"name": "positions", "type": "int64", "shape": ["new_length"]}
    assert facts["operators"] == file.operators
    assert facts["constants"] == [asdict(found) for found in constants_by_type(file.tensors)]


def test_a_model_without_an_architecture_has_no_cost(bundle: Bundle) -> None:
    foreign = replace(bundle, manifest=replace(bundle.manifest, architecture=None))
    assert bundle_facts(foreign, source_length=1, target_length=1)["cost"] is None
    assert "layers" not in dict(describe_bundle(foreign, source_length=1, target_length=1))


def test_names_in_a_file_cannot_control_the_terminal(tmp_path: Path) -> None:
    content = (DEFAULT_BUNDLE / tensor_names.DECODER).read_bytes().replace(b"logits", b"\x1b[31m!")
    (tmp_path / "a.onnx").write_bytes(content)
    shown = inspect(tmp_path / "a.onnx")
    assert "[31m! float32" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("name", "why"), [(tensor_names.MANIFEST, "is not an ONNX model"), ("none.onnx", "is missing")]
)
def test_a_file_that_cannot_be_read_gets_one_sentence(tmp_path: Path, name: str, why: str) -> None:
    shutil.copy(DEFAULT_BUNDLE / tensor_names.MANIFEST, tmp_path)
    program = [sys.executable, "-m", "seq2edge", "inspect", str(tmp_path / name)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
