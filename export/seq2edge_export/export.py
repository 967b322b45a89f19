"""Turn a checkpoint into a bundle.

Export any PyTorch module that fits ``Seq2SeqModule``.
"""

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from torch import nn

from seq2edge import __version__
from seq2edge.bundle import bundle, tensor_names
from seq2edge.bundle.atomic_files import new_folder
from seq2edge.bundle.bundle import Bundle, Dialect, FileEntry, Manifest, Rights, load_bundle, vet_graphs
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import ParityError
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.source_model import SourceModel
from seq2edge_export.tracing.graph_modules import GraphModules
from seq2edge_export.tracing.trace import OPSET, decoder_parts, trace_decoder, trace_encoder
from seq2edge_export.tracing.user_module import module_graphs
from seq2edge_export.verify import verify
from seq2edge_export.weight_offload import offloaded
from seq2edge_graphs.bundle_writer import check_target, describe_files, save_sharing_weights, write_manifest
from seq2edge_graphs.passes.split import part_giving, strip
from seq2edge_graphs.quantize.auto_precision import PrecisionChoice
from seq2edge_graphs.quantize.config import FP32, QuantizationConfig, Wanted
from seq2edge_graphs.quantize.pipeline import in_place

TOOLS = ("torch", "onnx", "onnxscript", "onnx-ir")


def export_bundle(
    source: Path | str,
    target: Path | str,
    *,
    wish: QuantizationConfig = FP32,
    dialect: Dialect = "ort",
    family: str = "auto",
    compare: bool = True,
    force: bool = False,
    say: Callable[[str], None] = lambda _: None,
    explain: Callable[[PrecisionChoice], None] = lambda _: None,
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
    original: SourceModel,
    target: Path,
    *,
    wish: QuantizationConfig = FP32,
    dialect: Dialect,
    compare: bool,
    force: bool,
    sole_owner: bool = False,
    say: Callable[[str], None] = lambda _: None,
    explain: Callable[[PrecisionChoice], None] = lambda _: None,
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
            with offloaded(original.graphs) if sole_owner else nullcontext(lambda: None) as rest:
                made = replace(made, manifest=_proven(made, original, wish, rest))
        vet_graphs(folder, made.manifest)
        write_manifest(folder, made.manifest)  # last: a folder without it is not a bundle
    return load_bundle(target)


def _proven(unfinished: Bundle, original: SourceModel, wish: QuantizationConfig, rest: Callable[[], None]) -> Manifest:
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
    graphs = {tensor_names.ENCODER: encoder, **parts}
    for model in graphs.values():
        strip(model)
    save_sharing_weights({folder / name: model for name, model in graphs.items()}, folder / tensor_names.WEIGHTS)
    for model in (decoder, *graphs.values()):
        for value in model.graph.initializers.values():
            value.const_value = None  # the exporter keeps a hold of the last graph that it made


def _manifest(original: SourceModel, dialect: Dialect, files: dict[str, FileEntry]) -> Manifest:
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


def export_module(
    module: nn.Module,
    target: Path | str,
    *,
    tokens: SpecialTokens,
    tokenization: Tokenization,
    tokenizer_folder: Path | str,
    generation: GenerationOptions,
    max_positions: int,
    languages: tuple[str, str] = ("", ""),
    license: str = "",
    attribution: str = "",
    precision: Wanted = "fp32",
    dialect: Dialect = "ort",
    compare: bool = True,
    force: bool = False,
) -> Bundle:
    """Write the bundle of a module, compared with the module itself; ``tokenization`` names files in its folder."""
    original = SourceModel(
        family="module",
        graphs=module_graphs(module),
        architecture=None,
        parameters=sum(parameter.numel() for parameter in module.parameters()),
        max_positions=max_positions,
        tokens=tokens,
        tokenization=tokenization,
        tokenizer_files={name: Path(tokenizer_folder) / name for name in tokenization.files},
        generation=generation,
        languages=Languages(source=languages[0], target=languages[1]),
        rights=Rights(license=license, attribution=attribution),
    )
    return write_bundle(
        original,
        Path(target),
        wish=QuantizationConfig(precision=precision),
        dialect=dialect,
        compare=compare,
        force=force,
    )
