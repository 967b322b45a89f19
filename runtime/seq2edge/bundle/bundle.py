"""Read the manifest of a bundle, and check every file before it is used."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from seq2edge.bundle import tensor_names
from seq2edge.bundle.atomic_files import sha256_of
from seq2edge.bundle.packaged import DIGESTS, digest_of, digest_of_file
from seq2edge.config.architecture import Architecture
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages
from seq2edge.config.parity import Parity
from seq2edge.config.schema import SchemaError, read_strict, short_repr
from seq2edge.config.text import resolve_split
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import BundleError

FORMAT_VERSION = 1  # docs/versioning.md: when it is raised, and how older bundles are read then
DEFAULT_BUNDLE = Path(__file__).parents[1] / "models" / "en-pt"
MAX_MANIFEST_BYTES = 1_000_000  # far more than any manifest has
MAX_GRAPH_BYTES = 2**25  # a graph has hundreds of kilobytes; the weights are in another file
MAX_NAME_BYTES = 255  # the limit of most file systems
MAX_POSITIONS, MAX_BEAMS = 1_000_000, 1_000  # more than any model needs

Precision = Literal["fp32", "fp16", "fp16-compute", "int8", "int4", "mixed"]
Dialect = Literal["ort", "portable"]
FileState = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """The expected content of a file of the bundle."""

    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Rights:
    """The license of the model and the attribution it requires."""

    license: str
    attribution: str


@dataclass(frozen=True, kw_only=True)
class Quantization:
    """The precision in which the weights are stored."""

    weights: dict[str, int]  # number of weights in each precision
    others: dict[
        str, Precision
    ]  # weights whose precision differs from that of the bundle, by name; all of them if it is mixed
    calibration: int  # number of calibration sentences, given or random; 0: rounded to nearest


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of ``manifest.json``; a missing or unknown key is an error.

    Only ``split`` may be missing, as in bundles of earlier versions, or ``auto``: the family decides then.
    """

    format_version: int
    family: str
    architecture: Architecture | None  # null: a user module
    parameters: int
    max_positions: int  # maximum number of source tokens, and of target tokens
    split: Literal["sentences", "none"]  # what the option split="auto" means
    tokens: SpecialTokens
    tokenizer: Tokenization
    languages: Languages
    precision: Precision
    quantization: Quantization | None  # null: not quantized
    dialect: Dialect
    opset: int
    generation: GenerationOptions
    rights: Rights
    tools: dict[str, str]
    files: dict[str, FileEntry]
    parity: Parity | None  # null: not compared with the source model

    def __post_init__(self) -> None:
        if self.parameters < 1:
            raise ValueError(f"parameters is {self.parameters}, but must be at least 1")
        if not 1 <= self.max_positions <= MAX_POSITIONS:
            raise ValueError(f"max_positions is {self.max_positions}, but must be between 1 and {MAX_POSITIONS:,}")
        if max(self.generation.num_beams, self.generation.num_return_sequences) > MAX_BEAMS:
            raise ValueError(f"generation has more than {MAX_BEAMS:,} beams or translations")
        self._check_files()

    @property
    def bytes_per_state(self) -> int:
        """Bytes of a value in the KV cache and in the outputs of the encoder."""
        return 2 if self.precision == "fp16-compute" else 4

    def _check_files(self) -> None:
        required = {tensor_names.ENCODER, tensor_names.DECODER, tensor_names.WEIGHTS, *self.tokenizer.files}
        shortlist = {tensor_names.SHORTLIST, tensor_names.SHORT_DECODER, tensor_names.WORDS_GRAPH}
        if shortlist & self.files.keys():
            required |= shortlist
        missing = sorted(required - self.files.keys())
        if missing:
            raise ValueError(f"files does not name {', '.join(missing)}")
        if self.tokenizer.source_length > self.max_positions:
            raise ValueError(
                f"tokenizer.source_length is {self.tokenizer.source_length}, but max_positions is {self.max_positions}"
            )
        invalid = [name for name in self.files if not _is_plain(name)]
        if invalid:
            raise ValueError(f"files names {short_repr(invalid[0])}, which is not a plain file name")


def _is_plain(name: str) -> bool:
    """Return whether a name is that of a file directly in the folder, and valid on common file systems."""
    return (
        Path(name).name == name and name not in ("", ".", "..") and len(name.encode(errors="replace")) <= MAX_NAME_BYTES
    )


@dataclass(frozen=True)
class Bundle:
    """A bundle whose manifest was read and whose files were checked."""

    folder: Path
    manifest: Manifest
    checked: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # the graphs, all vetted but the scorer
    weights_state: FileState | None = None  # of the weights when they were checked
    packaged: bool = False  # equal to the bundle that comes with the package, which was vetted before

    def graph(self, name: str) -> bytes | None:
        """Return the vetted bytes of a graph, whatever its file has become; None if this bundle was not vetted.

        The scorer, which few users need, is vetted here.
        """
        path = self.folder / tensor_names.WEIGHTS
        if self.weights_state not in (None, file_state(path)):
            _check_hash(path, self.manifest.files[tensor_names.WEIGHTS])
        if name == tensor_names.SCORER and name in self.checked and not self.packaged:
            scored_with = {one: self.checked[one] for one in (tensor_names.ENCODER, name)}
            _vet(self.folder, self.manifest, scored_with)
        return self.checked.get(name)

    @property
    def size(self) -> int:
        """Bytes of all files, including the manifest."""
        return (
            sum(entry.size for entry in self.manifest.files.values())
            + (self.folder / tensor_names.MANIFEST).stat().st_size
        )

    @property
    def size_text(self) -> str:
        """The size in MB and in bytes per parameter, for display."""
        parameters = self.manifest.parameters
        return (
            f"{self.size / 1e6:.1f} MB for {parameters / 1e6:.2f} million parameters "
            f"({self.size / parameters:.3f} bytes each)"
        )


def load_bundle(folder: Path, *, check_hashes: bool = True, require_signature: Path | None = None) -> Bundle:
    """Read the manifest of a bundle, check the files that it names, and vet the graphs.

    ``require_signature`` is a public key with which the manifest must be signed; hashes are then always checked. The
    graphs are known to be sound if all hashes are those of the bundle that comes with the package.
    """
    content = _read_manifest_bytes(folder)
    if require_signature is not None:
        from seq2edge.bundle.signing import check_signature

        check_signature(folder, content, require_signature)
    manifest = read_manifest(content, folder / tensor_names.MANIFEST)
    check_hashes = check_hashes or require_signature is not None
    _check_plain(folder, manifest)
    weights_state = file_state(folder / tensor_names.WEIGHTS)
    graphs = _read_graphs(folder, manifest)
    packaged = check_hashes and digest_of(content) == DIGESTS[tensor_names.MANIFEST]
    for name, entry in manifest.files.items() if check_hashes else ():
        if packaged:
            _check_digest(folder / name, graphs.get(name))
        else:
            _check_hash(folder / name, entry, graphs.get(name))
    if not packaged:
        _vet(folder, manifest, {name: graph for name, graph in graphs.items() if name != tensor_names.SCORER})
    return Bundle(folder, manifest, graphs, weights_state, packaged)


def _read_manifest_bytes(folder: Path) -> bytes:
    path = folder / tensor_names.MANIFEST
    if not path.is_file():
        raise BundleError(
            f"{folder} is not a bundle: it has no {tensor_names.MANIFEST}; make one with  seq2edge export"
        )
    if path.is_symlink():
        raise BundleError(f"{path} is a symbolic link, but a bundle must consist of plain files")
    with path.open("rb") as file:
        content = file.read(MAX_MANIFEST_BYTES + 1)
    if len(content) > MAX_MANIFEST_BYTES:
        raise BundleError(f"{path} has more than {MAX_MANIFEST_BYTES:,} bytes, which is too large for a manifest")
    return content


def read_manifest(raw: bytes, path: Path) -> Manifest:
    """Parse the bytes of a manifest; ``path`` is its name in errors."""
    try:
        content = json.loads(raw.decode(), object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is not valid UTF-8 JSON ({error})") from None
    version = content.get("format_version") if isinstance(content, dict) else None
    if not isinstance(version, int) or version not in UPGRADES:
        newer = isinstance(version, int) and version > FORMAT_VERSION
        raise BundleError(
            f"{path} has format version {short_repr(version)}, but this seq2edge reads version {FORMAT_VERSION}"
            f"{'; install a newer seq2edge' if newer else ''}"
        )
    for older in range(version, FORMAT_VERSION + 1):
        UPGRADES[older](content)
    try:
        return read_strict(Manifest, content, where="manifest", complete=True)
    except SchemaError as error:
        raise BundleError(f"{path} is not a valid manifest: {error}") from None


# Keys that were added after bundles had been written without them, and what their absence means.
LATER: dict[str, dict[str, Any]] = {"tokens": {"source_unk": None}, "generation": {}}


def _complete_first(content: dict[str, Any]) -> None:
    """Add the keys that are newer than a bundle of format 1."""
    for part, keys in LATER.items():
        if isinstance(content.get(part), dict):
            content[part] = keys | content[part]
    content["split"] = resolve_split(content.get("split", "auto"), content.get("family"))


# For each format version the function that turns its manifest into one of the next; the last one only completes it.
UPGRADES: dict[int, Callable[[dict[str, Any]], None]] = {FORMAT_VERSION: _complete_first}


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object with two equal keys, of which other readers might use the other one."""
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {short_repr(next(key for key in keys if keys.count(key) > 1))} appears twice")
    return content


def vet_graphs(folder: Path, manifest: Manifest) -> None:
    """Check that every graph of a bundle is safe to load, and that the graphs match each other."""
    _vet(folder, manifest, _read_graphs(folder, manifest))


def _read_graphs(folder: Path, manifest: Manifest) -> dict[str, bytes]:
    return {name: read_graph(folder / name) for name in tensor_names.GRAPHS if name in manifest.files}


def read_graph(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(MAX_GRAPH_BYTES + 1)
    if len(content) > MAX_GRAPH_BYTES:
        size = path.stat().st_size
        raise BundleError(f"{path} has {size:,} bytes, but a graph without its weights has at most {MAX_GRAPH_BYTES:,}")
    return content


def _vet(folder: Path, manifest: Manifest, graphs: Mapping[str, bytes]) -> None:
    from seq2edge.bundle.graph_signature import check_graph_signatures  # the packaged bundle does not need them
    from seq2edge.bundle.graph_vetting import vet_graph

    weights_bytes, portable = manifest.files[tensor_names.WEIGHTS].size, manifest.dialect == "portable"
    vetted = {
        name: vet_graph(folder / name, raw, weights_bytes=weights_bytes, portable=portable)
        for name, raw in graphs.items()
    }
    check_graph_signatures(vetted)


def _check_plain(folder: Path, manifest: Manifest) -> None:
    for name, entry in manifest.files.items():
        path = folder / name
        if path.is_symlink() or not path.is_file():
            raise BundleError(f"{path} is missing or not a plain file; copy the bundle again")
        size = path.stat().st_size
        if size != entry.size:
            raise BundleError(f"{path} has {size:,} bytes instead of {entry.size:,}; copy the bundle again")


def _check_hash(path: Path, entry: FileEntry, content: bytes | None = None) -> None:
    from hashlib import sha256  # which loads OpenSSL

    if (sha256_of(path) if content is None else sha256(content).hexdigest()) != entry.sha256:
        raise _changed(path)


def _check_digest(path: Path, content: bytes | None) -> None:
    """Do the same for a file of the packaged bundle, in less time and memory."""
    if (digest_of_file(path) if content is None else digest_of(content)) != DIGESTS.get(path.name):
        raise _changed(path)


def _changed(path: Path) -> BundleError:
    return BundleError(f"{path} is not the file that was exported (its sha256 differs); copy the bundle again")


def file_state(path: Path) -> FileState:
    """Return what changes when a file is replaced or written to: its place, size and times."""
    state = path.stat()
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
