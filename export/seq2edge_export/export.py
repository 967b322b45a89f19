"""Turn a checkpoint into a bundle; needs torch, onnxscript and onnx-ir."""

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from seq2edge import __version__, bundle, names
from seq2edge.bundle import Bundle, Dialect, FileEntry, Manifest, load_bundle, vet_graphs
from seq2edge.errors import ParityError
from seq2edge.files import new_folder
from seq2edge_export.families import load_checkpoint
from seq2edge_export.graph_modules import GraphModules
from seq2edge_export.original import Original
from seq2edge_export.resting import resting
from seq2edge_export.trace import OPSET, decoder_parts, trace_decoder, trace_encoder
from seq2edge_export.verify.verify import verify
from seq2edge_graphs.manifest import describe_files, write_manifest
from seq2edge_graphs.quantize.bundle import in_place
from seq2edge_graphs.quantize.choose import Choice
from seq2edge_graphs.quantize.wish import FP32, Wish
from seq2edge_graphs.split import part_giving
from seq2edge_graphs.strip import strip
from seq2edge_graphs.target import check_target
from seq2edge_graphs.weights import save_sharing_weights

TOOLS = ("torch", "onnx", "onnxscript", "onnx-ir")


def export_bundle(
    source: Path | str,
    target: Path | str,
    *,
    wish: Wish = FP32,
    dialect: Dialect = "ort",
    family: str = "auto",
    compare: bool = True,
    force: bool = False,
    say: Callable[[str], None] = lambda _: None,
    explain: Callable[[Choice], None] = lambda _: None,
) -> Bundle:
    """Write the bundle of a checkpoint; it appears only when it is complete and says what the original says."""
    source, target = Path(source), Path(target)
    check_target(target, force=force, source=source)
    say("reading the checkpoint")
    original = load_checkpoint(source, family).original()
    return write_bundle(
        original,
        target,
        wish=wish,
        dialect=dialect,
        compare=compare,
        force=force,
        sole_owner=True,
        say=say,
        explain=explain,
    )


def write_bundle(
    original: Original,
    target: Path,
    *,
    wish: Wish = FP32,
    dialect: Dialect,
    compare: bool,
    force: bool,
    sole_owner: bool = False,
    say: Callable[[str], None] = lambda _: None,
    explain: Callable[[Choice], None] = lambda _: None,
) -> Bundle:
    """The same for a model in memory; its weights go to a file in the end if nobody else has a hold of it."""
    check_target(target, force=force)
    original.check()
    with new_folder(target) as folder:
        _write_graphs(original.graphs.traced or original.graphs, folder, dialect, say)
        for name, file in original.tokenizer_files.items():
            shutil.copyfile(file, folder / name)
        made = Bundle(folder, _manifest(original, dialect, describe_files(folder)))
        made = replace(made, manifest=in_place(made, wish, say, explain))
        if compare:
            say("comparing with the original")
            with resting(original.graphs) if sole_owner else nullcontext(lambda: None) as rest:
                made = replace(made, manifest=_proven(made, original, wish, rest))
        vet_graphs(folder, made.manifest)
        write_manifest(folder, made.manifest)  # last: a folder without it is not a bundle
    return load_bundle(target)


def _proven(unfinished: Bundle, original: Original, wish: Wish, rest: Callable[[], None]) -> Manifest:
    verdict = verify(unfinished, original, texts=wish.texts, references=wish.references, rest=rest)
    if not verdict.passed:
        raise ParityError(f"{verdict}; nothing was written (--no-verify writes it all the same)")
    return replace(unfinished.manifest, parity=verdict.parity)


def _write_graphs(modules: GraphModules, folder: Path, dialect: Dialect, say: Callable[[str], None]) -> None:
    say("tracing the encoder")
    encoder = trace_encoder(modules, dialect)
    say("tracing the decoder")
    decoder = trace_decoder(modules, dialect)
    parts = {name: part_giving(decoder, outputs) for name, outputs in decoder_parts(modules, dialect).items()}
    graphs = {names.ENCODER: encoder, **parts}
    for model in graphs.values():
        strip(model)
    save_sharing_weights({folder / name: model for name, model in graphs.items()}, folder / names.WEIGHTS)
    for model in (decoder, *graphs.values()):
        for value in model.graph.initializers.values():
            value.const_value = None  # the exporter keeps a hold of the last graph that it made


def _manifest(original: Original, dialect: Dialect, files: dict[str, FileEntry]) -> Manifest:
    return Manifest(
        format_version=bundle.FORMAT_VERSION,
        family=original.family,
        architecture=original.architecture,
        parameters=original.parameters,
        max_positions=original.max_positions,
        tokens=original.tokens,
        tokenizer=original.tokenization,
        languages=original.languages,
        precision="fp32",
        quantization=None,
        dialect=dialect,
        opset=OPSET,
        generation=original.generation,
        rights=original.rights,
        tools={"seq2edge": __version__, **{name: version(name).split("+")[0] for name in TOOLS}},
        files=files,
        parity=None,
    )
