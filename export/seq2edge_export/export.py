"""Export checkpoints and PyTorch modules as bundles."""

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import get_args

from torch import nn

from seq2edge import __version__
from seq2edge.bundle import bundle, tensor_names
from seq2edge.bundle.atomic_files import new_folder
from seq2edge.bundle.bundle import Bundle, Dialect, FileEntry, Manifest, Rights, load_bundle, vet_graphs
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages
from seq2edge.config.text import Split, resolve_split
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import ParityError, UsageError
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.source_model import SourceModel
from seq2edge_export.tracing.graph_modules import GraphModules
from seq2edge_export.tracing.trace import OPSET, trace_decoder, trace_encoder
from seq2edge_export.tracing.user_module import module_graphs
from seq2edge_export.verify import verify
from seq2edge_export.weight_offload import offload_weights
from seq2edge_graphs.bundle_writer import check_target, describe_files, save_sharing_weights, write_manifest
from seq2edge_graphs.passes.subgraph import extract_outputs, strip
from seq2edge_graphs.quantize.auto_precision import PrecisionChoice
from seq2edge_graphs.quantize.config import FP32, QuantizationConfig, TargetPrecision
from seq2edge_graphs.quantize.pipeline import quantize_in_place

TOOLS = ("torch", "onnx", "onnxscript", "onnx-ir")


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    quantization: QuantizationConfig = FP32
    dialect: Dialect = "ort"
    family: str = "auto"  # of a checkpoint; auto recognizes it
    tokenizer: str = ""  # spaces, characters, bpe:CODES or spm:MODEL, for a vocabulary without tokenizer
    split: Split = "auto"  # how texts are split; auto decides by family
    compare: bool = True  # compare the bundle with the source model before it is written
    force: bool = False  # replace an existing bundle

    def __post_init__(self) -> None:
        if self.split not in get_args(Split):
            raise UsageError(f"split is {self.split!r}, but must be one of {', '.join(get_args(Split))}")


@dataclass(frozen=True)
class Progress:
    """Callbacks that report on an export."""

    stage: Callable[[str], None] = lambda _: None  # called when a stage begins
    precision_chosen: Callable[[PrecisionChoice], None] = lambda _: None  # called with the result of precision "auto"


SILENT = Progress()


def export_bundle(
    source: Path | str,
    target: Path | str,
    *,
    precision: TargetPrecision | QuantizationConfig = "fp32",
    dialect: Dialect = "ort",
    family: str = "auto",
    tokenizer: str = "",
    split: Split = "auto",
    compare: bool = True,
    force: bool = False,
    progress: Progress = SILENT,
) -> Bundle:
    """Export a checkpoint as a bundle, which is written only if it is complete and matches the source model."""
    options = ExportOptions(
        quantization=_quantization(precision),
        dialect=dialect,
        family=family,
        tokenizer=tokenizer,
        split=split,
        compare=compare,
        force=force,
    )
    return export_checkpoint(Path(source), Path(target), options, progress)


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
    precision: TargetPrecision | QuantizationConfig = "fp32",
    dialect: Dialect = "ort",
    split: Split = "auto",
    compare: bool = True,
    force: bool = False,
    progress: Progress = SILENT,
) -> Bundle:
    """Export a ``Seq2SeqModule`` as a bundle; the files named in ``tokenization`` are in ``tokenizer_folder``.

    ``split="none"`` is for a model that reads more than a sentence at once.
    """
    source_model = SourceModel(
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
    options = ExportOptions(
        quantization=_quantization(precision), dialect=dialect, split=split, compare=compare, force=force
    )
    return write_bundle(source_model, Path(target), options, progress)


def export_checkpoint(source: Path, target: Path, options: ExportOptions, progress: Progress) -> Bundle:
    check_target(target, force=options.force, source=source)
    progress.stage("reading the checkpoint")
    source_model = load_checkpoint(source, options.family, options.tokenizer).source_model()
    return write_bundle(source_model, target, options, progress, offload=True)


def write_bundle(
    source_model: SourceModel, target: Path, options: ExportOptions, progress: Progress, *, offload: bool = False
) -> Bundle:
    """Trace, quantize, compare and write a model; ``offload`` its weights to a file only if no one else uses it."""
    check_target(target, force=options.force)
    source_model.check()
    with new_folder(target) as folder:
        _write_graphs(source_model.graphs, folder, options.dialect, progress)
        for name, file in source_model.tokenizer_files.items():
            shutil.copyfile(file, folder / name)
        made = Bundle(folder, _manifest(source_model, options, describe_files(folder)))
        manifest = quantize_in_place(
            made, options.quantization, progress.stage, progress.precision_chosen, compare=options.compare
        )
        made = replace(made, manifest=manifest)
        if options.compare:
            progress.stage("comparing with the source model")
            with offload_weights(source_model.graphs) if offload else nullcontext(lambda: None) as release:
                made = replace(made, manifest=_compare(made, source_model, options.quantization, release))
        vet_graphs(folder, made.manifest)
        write_manifest(folder, made.manifest)  # last: a folder without it is not a bundle
    return load_bundle(target)


def _quantization(precision: TargetPrecision | QuantizationConfig) -> QuantizationConfig:
    return precision if isinstance(precision, QuantizationConfig) else QuantizationConfig(precision=precision)


def _compare(
    unfinished: Bundle, source_model: SourceModel, quantization: QuantizationConfig, release: Callable[[], None]
) -> Manifest:
    verdict = verify(
        unfinished, source_model, texts=quantization.texts, references=quantization.references, release=release
    )
    if not verdict.passed:
        raise ParityError(f"{verdict}; nothing was written: {quantization.advice}")
    return replace(unfinished.manifest, parity=verdict.parity)


def _write_graphs(modules: GraphModules, folder: Path, dialect: Dialect, progress: Progress) -> None:
    progress.stage("tracing the encoder")
    encoder = trace_encoder(modules, dialect)
    progress.stage("tracing the decoder")
    decoder = trace_decoder(modules, dialect)
    outputs = modules.decoder_graphs[dialect].outputs
    graphs = {tensor_names.ENCODER: encoder}
    graphs |= {name: extract_outputs(decoder, names) for name, names in outputs.items()}
    for model in graphs.values():
        strip(model)
    save_sharing_weights({folder / name: model for name, model in graphs.items()}, folder / tensor_names.WEIGHTS)
    for model in (decoder, *graphs.values()):
        for value in model.graph.initializers.values():
            value.const_value = None  # the exporter keeps a reference to its last graph


def _manifest(source_model: SourceModel, options: ExportOptions, files: dict[str, FileEntry]) -> Manifest:
    return Manifest(
        format_version=bundle.FORMAT_VERSION,
        family=source_model.family,
        architecture=source_model.architecture,
        parameters=source_model.parameters,
        max_positions=source_model.max_positions,
        split=resolve_split(options.split, source_model.family),
        tokens=source_model.tokens,
        tokenizer=source_model.tokenization,
        languages=source_model.languages,
        precision="fp32",
        quantization=None,
        dialect=options.dialect,
        opset=OPSET,
        generation=source_model.generation,
        rights=source_model.rights,
        tools={"seq2edge": __version__, **{name: version(name).split("+")[0] for name in TOOLS}},
        files=files,
        parity=None,
    )
