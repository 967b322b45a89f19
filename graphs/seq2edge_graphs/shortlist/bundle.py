"""Make a bundle with a shortlist from one without."""

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
from seq2edge.config.languages import default_tags
from seq2edge.engine.shortlist import Shortlist
from seq2edge.errors import DataError, UsageError
from seq2edge.files.lines import read_lines
from seq2edge.text.tokenizer import Tokenizer, load_tokenizer
from seq2edge_graphs.bundle_writer import check_target, describe_files, write_manifest
from seq2edge_graphs.shortlist.align import Pair, ShortlistSizes, learn_shortlist
from seq2edge_graphs.shortlist.graphs import short_decoder, words_graph
from seq2edge_graphs.shortlist.marian_lex import read_marian_lex

LINES_AT_ONCE = 1000
OWN_FILES = (tensor_names.SHORTLIST, tensor_names.SHORT_DECODER, tensor_names.WORDS_GRAPH)
ShortlistBuilder = Callable[[Bundle], Shortlist]


@dataclass(frozen=True, kw_only=True)
class AlignmentData:
    """Sentence pairs to learn from, and how long lists should be."""

    pairs: Path  # lines of  source<TAB>target
    best: int = 50
    frequent: int = 100


def from_marian(path: Path) -> ShortlistBuilder:
    """The table of one of Marian's files."""

    def make(bundle: Bundle) -> Shortlist:
        shape = _shape(bundle)
        return read_marian_lex(
            path,
            source_tokens=shape.source_vocabulary,
            vocabulary=shape.target_vocabulary,
            shared=_is_shared(bundle.manifest),
        )

    return make


def from_alignments(lesson: AlignmentData, tell: Callable[[int], None] = lambda _: None) -> ShortlistBuilder:
    """A table that is learned; ``tell`` hears from how many pairs."""

    def make(bundle: Bundle) -> Shortlist:
        shape, manifest = _shape(bundle), bundle.manifest
        files = {name: bundle.folder / name for name in manifest.tokenizer.files}
        tokenizer = load_tokenizer(manifest.tokenizer, manifest.tokens, files)
        tokenizer = tokenizer.with_tags(default_tags(manifest.languages))
        sizes = ShortlistSizes(
            source_tokens=shape.source_vocabulary,
            vocabulary=shape.target_vocabulary,
            best=lesson.best,
            frequent=lesson.frequent,
        )
        pairs = _pairs(lesson.pairs, tokenizer, manifest.max_positions)
        table, count = learn_shortlist(pairs, sizes, always=_marks(manifest), shared=_is_shared(manifest))
        tell(count)
        return table

    return make


def add_shortlist(source: Path | str, target: Path | str, make: ShortlistBuilder, *, force: bool = False) -> Bundle:
    """Write a bundle that has a shortlist besides all that it had; it appears when it is complete."""
    source, target = Path(source), Path(target)
    original = load_bundle(source)
    decoder = ir.load(original.folder / tensor_names.DECODER)
    graphs = {tensor_names.SHORT_DECODER: short_decoder(decoder), tensor_names.WORDS_GRAPH: words_graph(decoder)}
    check_target(target, force=force, source=source)
    table = make(original)
    with new_folder(target) as folder:
        for name in original.manifest.files.keys() - set(OWN_FILES):
            shutil.copyfile(original.folder / name, folder / name)
        for name, model in graphs.items():
            ir.save(model, folder / name)
        (folder / tensor_names.SHORTLIST).write_bytes(table.to_bytes())
        tools = {**original.manifest.tools, "seq2edge": __version__, "onnx-ir": version("onnx-ir")}
        write_manifest(folder, replace(original.manifest, tools=tools, files=describe_files(folder)))
    return load_bundle(target)


def _shape(bundle: Bundle) -> Architecture:
    shape = bundle.manifest.architecture
    if shape is None:
        raise UsageError(f"{bundle.folder} is a module of its own kind, which takes no shortlist")
    return shape


def _is_shared(manifest: Manifest) -> bool:
    """Whether source and target have the same ids."""
    shape = manifest.architecture
    return shape is not None and shape.joint_vocabulary


def _marks(manifest: Manifest) -> list[int]:
    """Words that are no text: the search may want them in any sentence."""
    generation = manifest.generation
    forced = (*as_ids(generation.forced_bos_token_id), *as_ids(generation.forced_eos_token_id))
    return sorted({*generation.eos_ids, *forced, *manifest.languages.codes.values()})


def _pairs(path: Path, tokenizer: Tokenizer, longest: int) -> Iterator[Pair]:
    """The ids of each pair, end marks included; a pair with a side that is empty or too long is left out."""
    lines: list[tuple[str, str]] = []
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split("\t")
        if len(cells) != 2:
            raise DataError(f"{path}, line {number} has {len(cells)} columns: every line should be  source<TAB>target")
        lines.append((cells[0], cells[1]))
        if len(lines) == LINES_AT_ONCE:
            yield from _encoded(lines, tokenizer, longest)
            lines = []
    yield from _encoded(lines, tokenizer, longest)


def _encoded(lines: list[tuple[str, str]], tokenizer: Tokenizer, longest: int) -> Iterator[Pair]:
    kept = [(source, target) for source, target in lines if source.strip() and target.strip()]
    sources, targets = [source for source, _ in kept], [target for _, target in kept]
    for pair in zip(tokenizer.encode(sources), tokenizer.encode_target(targets), strict=True):
        if max(map(len, pair)) <= longest:
            yield pair
