"""The contents and cost of a bundle or an ONNX file, as text and as JSON, for ``seq2edge inspect``."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle
from seq2edge.bundle.onnx_file import STANDARD, OnnxFile, Tensor, Value, read_onnx
from seq2edge.config.architecture import Architecture, cache_bytes, cost_per_source_token, cost_per_target_token
from seq2edge.config.languages import Languages
from seq2edge.config.parity import Parity

Rows = list[tuple[str, str]]
Facts = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Constants:
    """All constants of one dtype."""

    type: str
    count: int
    numbers: int
    bytes: int


def describe_bundle(bundle: Bundle, *, source_length: int, target_length: int) -> Rows:
    """Return the names and values to show for a bundle."""
    manifest, graphs = bundle.manifest, graphs_of(bundle)
    size, shape = bundle.size, Rows()
    if manifest.architecture is not None:
        lengths = {"source_length": source_length, "target_length": target_length}
        shape = describe_shape(manifest.architecture, **lengths, bytes_per_value=manifest.bytes_per_state)
    return [
        ("bundle", str(bundle.folder)),
        ("family", manifest.family),
        ("languages", _languages(manifest.languages)),
        (
            "split",
            {"sentences": "sentences, translated one by one", "none": "none, texts are translated whole"}[
                manifest.split
            ],
        ),
        *shape,
        ("parameters", f"{manifest.parameters:,}"),
        ("precision", manifest.precision),
        ("dialect", f"{manifest.dialect}, opset {manifest.opset}"),
        ("size", f"{size / 1e6:.2f} MB, {size / manifest.parameters:.3f} bytes per parameter"),
        *([("shortlist", text)] if (text := shortlist_text(bundle)) else []),
        *[(f"{graph.path.stem} operators", _operators(graph)) for graph in graphs],
        *_constant_rows(tensor for graph in graphs for tensor in graph.tensors),
        ("licence", manifest.rights.license or "not stated"),
        ("attribution", manifest.rights.attribution or "not stated"),
        ("parity", _parity(manifest.parity)),
        ("made with", ", ".join(f"{name} {version}" for name, version in manifest.tools.items())),
    ]


def bundle_facts(bundle: Bundle, *, source_length: int, target_length: int) -> Facts:
    """Return the same as JSON: the manifest, and what follows from it and the graphs."""
    shape, graphs = bundle.manifest.architecture, graphs_of(bundle)
    lengths = {"source_length": source_length, "target_length": target_length}
    return {
        "bundle": str(bundle.folder),
        "size": bundle.size,
        "shortlist": shortlist_facts(bundle),
        "cost": shape and cost_facts(shape, **lengths, bytes_per_value=bundle.manifest.bytes_per_state),
        "constants": _constant_facts(tensor for graph in graphs for tensor in graph.tensors),
        "graphs": {graph.path.name: onnx_facts(graph) for graph in graphs},
        "manifest": asdict(bundle.manifest),
    }


def shortlist_facts(bundle: Bundle) -> Facts | None:
    """Return the number of tokens in the shortlist, if there is one."""
    if tensor_names.SHORTLIST not in bundle.manifest.files:
        return None
    from seq2edge.engine.shortlist import read_shortlist  # numpy is only needed here

    table = read_shortlist(bundle.folder / tensor_names.SHORTLIST)
    listed = len(table.token_ids) - len(table.always)
    return {"source_tokens": table.source_tokens, "words": listed, "words_for_all": len(table.always)}


def shortlist_text(bundle: Bundle) -> str:
    """Return the size of the shortlist as text, or an empty string."""
    facts = shortlist_facts(bundle)
    if facts is None:
        return ""
    mean = facts["words"] / max(1, facts["source_tokens"])
    return f"{mean:.1f} target tokens per source token on average, {facts['words_for_all']} for all texts"


def cost_facts(shape: Architecture, *, source_length: int, target_length: int, bytes_per_value: int) -> Facts:
    """Return the cost of a token and of a sentence of these lengths."""
    lengths = {"source_length": source_length, "target_length": target_length}
    return {
        **lengths,
        "operations_per_source_token": cost_per_source_token(shape, source_length=source_length),
        "operations_per_target_token": cost_per_target_token(shape, **lengths),
        "cache_bytes_per_sentence": cache_bytes(shape, **lengths, bytes_per_value=bytes_per_value),
    }


def graphs_of(bundle: Bundle) -> list[OnnxFile]:
    """Read the graphs of a bundle, the encoder first."""
    graphs = [name for name in bundle.manifest.files if Path(name).suffix == ".onnx"]
    return [
        read_onnx(bundle.folder / name)
        for name in sorted(graphs, key=lambda name: (name != tensor_names.ENCODER, name))
    ]


def describe_onnx(file: OnnxFile) -> Rows:
    """Return the names and values to show for an ONNX file."""
    return [
        ("file", str(file.path)),
        ("size", _size(file.size)),
        ("opset", _opsets(file)),
        ("producer", file.producer or "not stated"),
        *[("input", _value(value)) for value in file.inputs],
        *[("output", _value(value)) for value in file.outputs],
        ("operators", _operators(file)),
        *_constant_rows(file.tensors),
        *[("data in", name) for name in _other_files(file)],
    ]


def onnx_facts(file: OnnxFile) -> Facts:
    """Return the same as JSON."""
    return {
        "file": str(file.path),
        "size": file.size,
        "ir_version": file.ir_version,
        "opsets": file.opsets,
        "producer": file.producer,
        "graph": file.graph,
        "inputs": [asdict(value) for value in file.inputs],
        "outputs": [asdict(value) for value in file.outputs],
        "operators": file.operators,
        "constants": _constant_facts(file.tensors),
        "data_in": _other_files(file),
    }


def constants_by_type(tensors: Iterable[Tensor]) -> list[Constants]:
    """Sum the constants of each dtype, the largest sum first; shared constants count once."""
    by_type: dict[str, list[Tensor]] = {}
    for tensor in _distinct(tensors):
        by_type.setdefault(tensor.type, []).append(tensor)
    constants = [
        Constants(
            type=name,
            count=len(group),
            numbers=sum(math.prod(tensor.dims) for tensor in group),
            bytes=sum(tensor.bytes for tensor in group),
        )
        for name, group in by_type.items()
    ]
    return sorted(constants, key=lambda one: -one.bytes)


def describe_shape(shape: Architecture, *, source_length: int, target_length: int, bytes_per_value: int) -> Rows:
    """Return the names and values to show for an architecture, with the cost of a token."""
    source_cost = cost_per_source_token(shape, source_length=source_length)
    target_cost = cost_per_target_token(shape, source_length=source_length, target_length=target_length)
    cache = cache_bytes(
        shape, source_length=source_length, target_length=target_length, bytes_per_value=bytes_per_value
    )
    lengths = f"at {source_length} source and {target_length} target tokens"
    return [
        ("layers", f"{shape.encoder_layers} encoder, {shape.decoder_layers} decoder{_cell(shape)}"),
        ("width", f"{_width(shape)} in {shape.heads} heads, feed-forward {_feed_forward(shape)}"),
        ("norm", f"{'RMS ' if shape.norm == 'rms' else ''}{'before' if shape.norm_first else 'after'} each sublayer"),
        ("positions", f"{shape.positions}, at most {shape.max_positions}"),
        ("vocabulary", _vocabulary(shape)),
        ("cost of a source token", f"{source_cost / 1e6:.2f} million operations {lengths}"),
        ("cost of a target token", f"{target_cost / 1e6:.2f} million operations {lengths}"),
        ("cache of a sentence", f"{cache / 1e6:.3f} MB {lengths}"),
    ]


def _cell(shape: Architecture) -> str:
    return "" if shape.decoder_cell == "attention" else f" ({shape.decoder_cell.upper()})"


def _width(shape: Architecture) -> str:
    return str(shape.width) if shape.inner_width == shape.width else f"{shape.width}, {shape.inner_width}"


def _distinct(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return the tensors without those that share their data in a file with another one."""
    distinct: dict[object, Tensor] = {}
    for index, tensor in enumerate(tensors):
        data = (tensor.location, tensor.offset, tensor.type, tensor.dims)
        distinct.setdefault(data if tensor.location else index, tensor)
    return list(distinct.values())


def _constant_rows(tensors: Iterable[Tensor]) -> Rows:
    return [
        (f"{found.type} constants", f"{found.numbers:,} in {_tensors(found.count)}, {_size(found.bytes)}")
        for found in constants_by_type(tensors)
    ]


def _constant_facts(tensors: Iterable[Tensor]) -> list[Facts]:
    return [asdict(found) for found in constants_by_type(tensors)]


def _operators(file: OnnxFile) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in file.operators.items()) or "none"


def _opsets(file: OnnxFile) -> str:
    return ", ".join(f"{'' if domain == STANDARD else domain} {file.opsets[domain]}".strip() for domain in file.opsets)


def _value(value: Value) -> str:
    text = f"{value.name} {value.type or 'of unknown type'}"
    if value.shape is None:
        return text
    return f"{text} [{', '.join('?' if axis is None else str(axis) for axis in value.shape)}]"


def _other_files(file: OnnxFile) -> list[str]:
    return sorted({tensor.location for tensor in file.tensors if tensor.location})


def _tensors(count: int) -> str:
    return "1 tensor" if count == 1 else f"{count:,} tensors"


def _size(count: int) -> str:
    if count < 1000:
        return f"{count} bytes"
    return f"{count / 1e6:.2f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


def _languages(languages: Languages) -> str:
    pair = f"{languages.source or '?'} → {languages.target or '?'}"
    return f"{pair}, of {len(languages.codes)}: {', '.join(languages.codes)}" if languages.codes else pair


def _parity(parity: Parity | None) -> str:
    if parity is None:
        return "not compared with the source model"
    return (
        f"greedy {parity.greedy_equal:.1%} and beam {parity.beam_equal:.1%} of {parity.sentences} sentences equal to "
        f"the source model, logits within {parity.logit_difference:.1e}"
    )


def _feed_forward(shape: Architecture) -> str:
    return f"{shape.feed_forward} ({'gated ' if shape.gated else ''}{shape.activation})"


def _vocabulary(shape: Architecture) -> str:
    if shape.joint_vocabulary:
        return f"{shape.target_vocabulary:,} joint"
    return f"{shape.source_vocabulary:,} source, {shape.target_vocabulary:,} target"
