"""Compare the browser's runtime with transformers.js: the same weights, in the same chromium, one thread.

    python benchmarks/browser.py [--input FILE] [--sentences 50] [--visits 3] [--optimum-python PYTHON]

transformers.js runs what optimum exports, so the default model is written as a Hugging Face folder first. It gets token
ids, because it has no tokenizer for this folder; the browser's runtime gets texts. Each system has a fresh profile of
chromium, on a page without other work, and its files are served compressed from this machine. `make test-web` installs
chromium and the packages of node, `make optimum` the environment of optimum. transformers.js has no beam search.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import results
from models import DEFAULT_CHECKPOINT, DEFAULT_DEV, ROOT, default_model
from seq2edge import Translator
from seq2edge.bundle.atomic_files import new_folder
from seq2edge.bundle.bundle import DEFAULT_BUNDLE
from seq2edge.web.npm_packages import NpmPackage, extract_files
from seq2edge.web.server import SiteHandler
from seq2edge.web.site import compress, make_site
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.peers.hugging_face import write_folder

sys.path.insert(0, str(ROOT / "tests" / "support"))
from javascript import served

DRIVER = Path(__file__).with_suffix(".mjs")
MAX_NEW_TOKENS = 128
GRAPHS = ("encoder_model", "decoder_model_merged")
TRANSFORMERS = NpmPackage(
    name="@huggingface/transformers",
    version="4.3.1",
    sha512="5+voSeUCFK6PCKlY15dPhNOKq3/zOTxDN7oC+Wy9dFb1QZ0TSQomZRRy7URRK8YRuUoE9fGMQTTPC5d/pWBJhA==",
    files=("dist/transformers.min.js",),
)
ITS_ONNXRUNTIME = NpmPackage(  # the version that transformers.js asks for
    name="onnxruntime-web",
    version="1.31.0-dev.20260914-8d85527a0",
    sha512="Iy7rtadoBgxS/LLvDr3QW38DB1PNXRnr0GJMcL0TAt7c9qjgVQl83UlGCVyeAnK2InpmW8Uc3PL8XIuqtDeF6g==",
    files=("dist/ort-wasm-simd-threaded.asyncify.mjs", "dist/ort-wasm-simd-threaded.asyncify.wasm"),
)
EXPORT = """
import sys
from optimum.onnxruntime import ORTModelForSeq2SeqLM
ORTModelForSeq2SeqLM.from_pretrained(sys.argv[1], export=True, use_merged=True).save_pretrained(sys.argv[2])
"""
OURS = """
import { Translator } from "./src/index.mjs";
export async function load(bundle) {
  const translator = await Translator.load(bundle, { threads: 1 });
  return async (sentence, options) => (await translator.translate(sentence.text, { ...options, split: "none" })).tokens;
}
"""
THEIRS = """
import { AutoModelForSeq2SeqLM, Tensor, env } from "./transformers.min.js";
const here = name => new URL(name, import.meta.url).href;
env.allowRemoteModels = false;
env.allowLocalModels = true;
env.localModelPath = here("./");
env.backends.onnx.wasm.numThreads = 1;
env.backends.onnx.wasm.wasmPaths = {
  mjs: here("ort-wasm-simd-threaded.asyncify.mjs"), wasm: here("ort-wasm-simd-threaded.asyncify.wasm"),
};
export async function load(dtype) {
  const model = await AutoModelForSeq2SeqLM.from_pretrained("model", { dtype, device: "wasm" });
  const tensor = values => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
  return async ({ ids }, options) => {
    const output = await model.generate({ inputs: tensor(ids), attention_mask: tensor(ids.map(() => 1)), ...options });
    return Array.from(output.data, Number).slice(1);
  };
}
"""
PAGE = "<!doctype html><meta charset=utf-8><title>benchmark</title>"


@dataclass(frozen=True, kw_only=True)
class System:
    """What is measured: a folder to serve, and the argument of its ``load``."""

    name: str
    folder: Path
    model: str
    num_beams: tuple[int, ...] = (1,)


class CountingHandler(SiteHandler):
    """Count the bytes of all answers."""

    sent = 0

    def copyfile(self, source: Any, outputfile: Any) -> None:
        content = source.read()
        CountingHandler.sent += len(content)
        outputfile.write(content)


@click.command()
@click.option("--input", "file", type=click.Path(path_type=Path), default=DEFAULT_DEV[0], help="English sentences.")
@click.option("--sentences", "count", default=50, show_default=True)
@click.option("--visits", default=3, show_default=True, help="Of each system, in turn; the best one counts.")
@click.option("--optimum-python", type=click.Path(path_type=Path), default=ROOT / ".venv-optimum" / "bin" / "python")
@click.option("--folder", type=click.Path(path_type=Path), help="Make the sites here, and keep them for the next run.")
@click.option("--quick", is_flag=True, help="A smoke test; its figures are meaningless.")
def main(file: Path, count: int, visits: int, optimum_python: Path, folder: Path | None, quick: bool) -> None:
    """Measure milliseconds per sentence, the time to the first answer, and bytes."""
    if quick:
        count, visits = 2, 1
    lines = file.read_text(encoding="utf-8").splitlines()[:count]
    ids = Translator(DEFAULT_BUNDLE, threads=1).tokenizer.encode(lines)
    sentences = [{"text": text, "ids": list(map(int, row))} for text, row in zip(lines, ids, strict=True)]
    with tempfile.TemporaryDirectory() as temporary:
        systems = prepare(folder or Path(temporary), optimum_python)
        seen = [[visit(system, sentences) for system in systems] for _ in range(visits)]
    rows = [
        row(system, beams, [one[index]["results"][place] for one in seen], [one[index] for one in seen])
        for index, system in enumerate(systems)
        for place, beams in enumerate(system.num_beams)
    ]
    compare(rows)
    results.write("browser", rows, quick=quick)
    show(rows)


def prepare(folder: Path, optimum_python: Path) -> list[System]:
    """Make a folder to serve for each system, unless it is there from an earlier run."""
    ours, theirs = folder / "seq2edge", folder / "transformers.js"
    if not ours.exists():
        fp32 = default_model(folder / "bundles", precisions=("fp32",)).bundles["fp32"]
        make_site([fp32, DEFAULT_BUNDLE], ours)
        (ours / "index.html").write_text(PAGE, encoding="utf-8")
        (ours / "system.mjs").write_text(OURS, encoding="utf-8")
    if not theirs.exists():
        write_peer(theirs, optimum_python)
    int8 = f"bundles/{DEFAULT_BUNDLE.resolve().name}"
    return [
        System(name="transformers.js fp32", folder=theirs, model="fp32"),
        System(name="seq2edge fp32", folder=ours, model="bundles/fp32", num_beams=(1, 4)),
        System(name="transformers.js q8", folder=theirs, model="q8"),
        System(name="seq2edge int8, widened", folder=ours, model=int8, num_beams=(1, 4)),
    ]


def write_peer(folder: Path, optimum_python: Path) -> None:
    """Let optimum export the default model, and add transformers.js with its onnxruntime."""
    with tempfile.TemporaryDirectory() as name, new_folder(folder) as target:
        source, exported, model = Path(name) / "source", Path(name) / "exported", target / "model"
        source.mkdir()
        write_folder(load_checkpoint(DEFAULT_CHECKPOINT).source_model(), source)
        subprocess.run([str(optimum_python), "-c", EXPORT, str(source), str(exported)], check=True)
        (model / "onnx").mkdir(parents=True)
        for graph in GRAPHS:
            shutil.copyfile(exported / f"{graph}.onnx", model / "onnx" / f"{graph}.onnx")
            quantize(model / "onnx", graph)
        config = json.loads((exported / "config.json").read_text(encoding="utf-8"))
        # transformers.js does not know Pegasus. Marian has the same inputs, and only these matter to it.
        config |= {"model_type": "marian", "architectures": ["MarianMTModel"]}
        (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
        shutil.copyfile(exported / "generation_config.json", model / "generation_config.json")
        extract_files(TRANSFORMERS, target)
        extract_files(ITS_ONNXRUNTIME, target)
        (target / "index.html").write_text(PAGE, encoding="utf-8")
        (target / "system.mjs").write_text(THEIRS, encoding="utf-8")
        for path in [path for path in target.rglob("*") if path.is_file()]:
            compress(path)


def quantize(folder: Path, graph: str) -> None:
    """Quantize as the conversion script of transformers.js does for q8."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        folder / f"{graph}.onnx",
        folder / f"{graph}_quantized.onnx",
        weight_type=QuantType.QInt8,
        extra_options={"EnableSubgraph": True, "MatMulConstBOnly": True},
    )


def visit(system: System, sentences: list[dict[str, Any]]) -> dict[str, Any]:
    """Open a system in a fresh browser and translate all sentences."""
    options = [{"num_beams": beams, "max_new_tokens": MAX_NEW_TOKENS} for beams in system.num_beams]
    CountingHandler.sent = 0
    with served(system.folder, CountingHandler) as address:
        request = {"address": address, "model": system.model, "sentences": sentences, "options": options}
        done = subprocess.run(
            ["node", str(DRIVER)], input=json.dumps(request), capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"{system.name}: {done.stderr}")
    seen: dict[str, Any] = {**json.loads(done.stdout), "bytes": CountingHandler.sent}
    times = ", ".join(f"{one['clock']:.0f} ({one['processor']:.0f})" for one in seen["results"])
    print(f"{system.name}: {times} ms per sentence (of the processor)", file=sys.stderr)
    return seen


def row(system: System, num_beams: int, measured: list[dict[str, Any]], visits: list[dict[str, Any]]) -> results.Row:
    return {
        "work": "default",
        "system": system.name,
        "num_beams": num_beams,
        "clock_ms": min(one["clock"] for one in measured),
        "processor_ms": min(one["processor"] for one in measured),
        "first_clock_s": min(one["first"]["clock"] for one in visits) / 1000,
        "first_processor_s": min(one["first"]["processor"] for one in visits) / 1000,
        "bytes": visits[0]["bytes"],
        "outputs": measured[0]["outputs"],
        "chromium": visits[0]["version"],
        "machine": results.machine(),
    }


def compare(rows: list[results.Row]) -> None:
    """Replace the outputs by the number of sentences whose tokens are those of the first system."""
    expected = {one["num_beams"]: one["outputs"] for one in reversed(rows)}
    for one in rows:
        outputs = one.pop("outputs")
        one["sentences"] = len(outputs)
        one["same_tokens"] = sum(map(list.__eq__, outputs, expected[one["num_beams"]]))


def show(rows: list[results.Row]) -> None:
    print(f"{rows[0]['machine']['cpu']}, chromium {rows[0]['chromium']}, {rows[0]['sentences']} sentences")
    print("| system | beams | ms per sentence (processor) | first answer (processor) | download | same tokens |")
    print("|---|---|---|---|---|---|")
    for one in rows:
        print(
            f"| {one['system']} | {one['num_beams']} | {one['clock_ms']:.1f} ({one['processor_ms']:.1f}) "
            f"| {one['first_clock_s']:.2f} s ({one['first_processor_s']:.2f}) "
            f"| {one['bytes'] / 1e6:.1f} MB | {one['same_tokens']} of {one['sentences']} |"
        )


if __name__ == "__main__":
    main()
