"""Add a shortlist to a bundle, from a file of Marian or from aligned sentence pairs."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import onnx_ir as ir

from seq2edge import __version__
from seq2edge.bundle import tensor_names
from seq2edge.bundle.atomic_files import new_folder
from seq2edge.bundle.bundle import Bundle, Manifest, load_bundle
from seq2edge.config.architecture import Architecture
from seq2edge.config.generation import as_ids
from seq2edge.engine.shortlist import Shortlist
from seq2edge.errors import DataError, UsageError
from seq2edge.files.lines import read_lines
from seq2edge.text.tokenizer import Tokenizer, bundle_tokenizer
from seq2edge_graphs.bundle_writer import check_target, describe_files, write_manifest
from seq2edge_graphs.shortlist.align import Pair, ShortlistSizes, learn_shortlist
from seq2edge_graphs.shortlist.graphs import short_decoder, words_graph
from seq2edge_graphs.shortlist.marian_lex import read_marian_lex

LINES_PER_BATCH = 1000
SHORTLIST_FILES = (tensor_names.SHORTLIST, tensor_names.SHORT_DECODER, tensor_names.WORDS_GRAPH)
ShortlistBuilder = Callable[[Bundle], Shortlist]


@dataclass(frozen=True, kw_only=True)
class AlignmentData:
    """Sentence pairs to align, and the lengths of the lists."""

    pairs: Path  # lines of  source<TAB>target
    best: int = 50  # target tokens for each source token
    frequent: int = 100  # target tokens for every sentence


def from_marian(path: Path) -> ShortlistBuilder:
    """Build the shortlist from a file of Marian."""

    def build(bundle: Bundle) -> Shortlist:
        shape = _architecture(bundle)
        return read_marian_lex(
            path,
            source_tokens=shape.source_vocabulary,
            vocabulary=shape.target_vocabulary,
            shared=_is_shared(bundle.manifest),
        )

    return build


def from_alignments(data: AlignmentData, on_learned: Callable[[int], None] = lambda _: None) -> ShortlistBuilder:
    """Build the shortlist from sentence pairs; ``on_learned`` is called with the number of pairs."""

    def build(bundle: Bundle) -> Shortlist:
        shape, manifest = _architecture(bundle), bundle.manifest
        sizes = ShortlistSizes(
            source_tokens=shape.source_vocabulary,
            vocabulary=shape.target_vocabulary,
            best=data.best,
            frequent=data.frequent,
        )
        pairs = _pairs(data.pairs, bundle_tokenizer(bundle), manifest.max_positions)
        shortlist, count = learn_shortlist(pairs, sizes, always=_special_ids(manifest), shared=_is_shared(manifest))
        on_learned(count)
        return shortlist

    return build


def add_shortlist(source: Path | str, target: Path | str, build: ShortlistBuilder, *, force: bool = False) -> Bundle:
    """Write a copy of a bundle with a shortlist; it appears only when it is complete."""
    source, target = Path(source), Path(target)
    bundle = load_bundle(source)
    decoder = ir.load(bundle.folder / tensor_names.DECODER)
    graphs = {tensor_names.SHORT_DECODER: short_decoder(decoder), tensor_names.WORDS_GRAPH: words_graph(decoder)}
    check_target(target, force=force, source=source)
    shortlist = build(bundle)
    with new_folder(target) as folder:
        for name in bundle.manifest.files.keys() - set(SHORTLIST_FILES):
            shutil.copyfile(bundle.folder / name, folder / name)
        for name, model in graphs.items():
            ir.save(model, folder / name)
        (folder / tensor_names.SHORTLIST).write_bytes(shortlist.to_bytes())
        tools = {**bundle.manifest.tools, "seq2edge": __version__, "onnx-ir": version("onnx-ir")}
        write_manifest(folder, replace(bundle.manifest, tools=tools, files=describe_files(folder)))
    return load_bundle(target)


def _architecture(bundle: Bundle) -> Architecture:
    architecture = bundle.manifest.architecture
    if architecture is None:
        raise UsageError(f"{bundle.folder} was exported from a custom module, which does not support a shortlist")
    return architecture


def _is_shared(manifest: Manifest) -> bool:
    """Return whether source and target share their token ids."""
    architecture = manifest.architecture
    return architecture is not None and architecture.joint_vocabulary


def _special_ids(manifest: Manifest) -> list[int]:
    """Return the tokens other than text that the search may need in any sentence."""
    generation = manifest.generation
    forced = (*as_ids(generation.forced_bos_token_id), *as_ids(generation.forced_eos_token_id))
    return sorted({*generation.eos_ids, *forced, *manifest.languages.codes.values()})


def _pairs(path: Path, tokenizer: Tokenizer, max_tokens: int) -> Iterator[Pair]:
    """Yield the token ids of each pair, including EOS; pairs with an empty or too long side are left out."""
    lines: list[tuple[str, str]] = []
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split("\t")
        if len(cells) != 2:
            raise DataError(f"{path}, line {number} has {len(cells)} columns: every line should be  source<TAB>target")
        lines.append((cells[0], cells[1]))
        if len(lines) == LINES_PER_BATCH:
            yield from _encode(lines, tokenizer, max_tokens)
            lines = []
    yield from _encode(lines, tokenizer, max_tokens)


def _encode(lines: list[tuple[str, str]], tokenizer: Tokenizer, max_tokens: int) -> Iterator[Pair]:
    kept = [(source, target) for source, target in lines if source.strip() and target.strip()]
    sources, targets = [source for source, _ in kept], [target for _, target in kept]
    for pair in zip(tokenizer.encode(sources), tokenizer.encode_target(targets), strict=True):
        if max(map(len, pair)) <= max_tokens:
            yield pair
