"""Turn a checkpoint into a bundle; needs torch, onnxscript and onnx-ir."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import onnx_ir as ir

from seq2edge import __version__, bundle, names
from seq2edge.bundle import Bundle, Dialect, FileEntry, Manifest, Precision, load_bundle
from seq2edge.errors import ParityError, UsageError
from seq2edge.files import new_folder
from seq2edge.parity import Parity
from seq2edge_export.families import load_checkpoint
from seq2edge_export.graph_modules import GraphModules
from seq2edge_export.original import Original
from seq2edge_export.trace import OPSET, trace_decoder, trace_encoder
from seq2edge_export.verify.verify import verify
from seq2edge_graphs.manifest import describe_files, write_manifest
from seq2edge_graphs.store import store_fp16, store_int8
from seq2edge_graphs.strip import strip
from seq2edge_graphs.weights import save_sharing_weights

TOOLS = ("torch", "onnx", "onnxscript", "onnx-ir")
STORES: dict[Precision, Callable[[ir.Model], None]] = {
    "fp32": lambda model: None,
    "fp16": store_fp16,
    "int8": store_int8,
}


def export_bundle(
    source: Path,
    target: Path,
    *,
    precision: Precision = "fp32",
    dialect: Dialect = "ort",
    family: str = "auto",
    compare: bool = True,
    force: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Bundle:
    """Write the bundle of a checkpoint; it appears only when it is complete and says what the original says."""
    _refuse_to_overwrite(target, force)
    say("reading the checkpoint")
    original = load_checkpoint(source, family).original()
    return write_bundle(original, target, precision=precision, dialect=dialect, compare=compare, force=force, say=say)


def write_bundle(
    original: Original,
    target: Path,
    *,
    precision: Precision,
    dialect: Dialect,
    compare: bool,
    force: bool,
    say: Callable[[str], None] = lambda _: None,
) -> Bundle:
    """The same for a model in memory."""
    _refuse_to_overwrite(target, force)
    original.tokenizer()  # one that cannot be read is better known now than after tracing
    with new_folder(target, replace=force) as folder:
        _write_graphs(original.graphs, folder, precision, dialect, say)
        for name, file in original.tokenizer_files.items():
            shutil.copyfile(file, folder / name)
        manifest = _manifest(original, precision, dialect, describe_files(folder))
        write_manifest(folder, manifest)
        if compare:
            say("comparing with the original")
            write_manifest(folder, replace(manifest, parity=_prove(folder, original)))
    return load_bundle(target)


def _refuse_to_overwrite(target: Path, force: bool) -> None:
    if target.exists() and not force:
        raise UsageError(f"{target} exists already; give --force to replace it")


def _prove(folder: Path, original: Original) -> Parity:
    verdict = verify(load_bundle(folder), original)
    if not verdict.passed:
        raise ParityError(f"{verdict}; nothing was written (--no-verify writes it all the same)")
    return verdict.parity


def _write_graphs(
    modules: GraphModules, folder: Path, precision: Precision, dialect: Dialect, say: Callable[[str], None]
) -> None:
    say("tracing the encoder")
    encoder = trace_encoder(modules, dialect)
    say("tracing the decoder")
    decoder = trace_decoder(modules, dialect)
    say(f"writing the weights in {precision}")
    graphs = {folder / names.ENCODER: encoder, folder / names.DECODER: decoder}
    for model in graphs.values():
        strip(model)
        STORES[precision](model)
    save_sharing_weights(graphs, folder / names.WEIGHTS)


def _manifest(original: Original, precision: Precision, dialect: Dialect, files: dict[str, FileEntry]) -> Manifest:
    return Manifest(
        format_version=bundle.FORMAT_VERSION,
        family=original.family,
        architecture=original.architecture,
        parameters=original.parameters,
        max_positions=original.max_positions,
        tokens=original.tokens,
        tokenizer=original.tokenization,
        languages=original.languages,
        precision=precision,
        dialect=dialect,
        opset=OPSET,
        generation=original.generation,
        rights=original.rights,
        tools={"seq2edge": __version__, **{name: version(name).split("+")[0] for name in TOOLS}},
        files=files,
        parity=None,
    )
