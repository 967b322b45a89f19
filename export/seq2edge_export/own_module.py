"""Export any PyTorch module that fits ``Seq2SeqModule``; needs torch, onnxscript and onnx-ir."""

from pathlib import Path

from torch import nn

from seq2edge.bundle import Bundle, Dialect, Rights
from seq2edge.generation import GenerationOptions
from seq2edge.languages import Languages
from seq2edge.tokenization import Tokenization
from seq2edge.tokens import SpecialTokens
from seq2edge_export.export import write_bundle
from seq2edge_export.module_door import module_graphs
from seq2edge_export.original import Original
from seq2edge_graphs.quantize.wish import Wanted, Wish


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
    original = Original(
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
        original, Path(target), wish=Wish(precision=precision), dialect=dialect, compare=compare, force=force
    )
