"""The bundle folder: its manifest, and the checks before anything in it is used."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seq2edge.bundle import tensor_names
from seq2edge.bundle.atomic_files import sha256_of
from seq2edge.bundle.graph_signature import check_graph_signatures
from seq2edge.bundle.graph_vetting import vet_graph
from seq2edge.config.architecture import Architecture
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages
from seq2edge.config.parity import Parity
from seq2edge.config.schema import ClosedError, read_closed, short
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import BundleError

FORMAT_VERSION = 1
EMBEDDED = Path(__file__).parents[1] / "models" / "en-de"
MANIFEST_BYTES = 1_000_000  # far more than any manifest has; a larger one is not read
LONGEST_NAME = 255  # bytes of a file's name, which is what file systems take
MOST_POSITIONS, MOST_BEAMS = 1_000_000, 1_000  # more than any model has use for

Precision = Literal["fp32", "fp16", "fp16-compute", "int8", "int8-blocks", "int4", "mixed"]
Dialect = Literal["ort", "portable"]


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """What a file of the bundle must be."""

    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Rights:
    """Under what terms the model may be used, and whom to name."""

    license: str
    attribution: str


@dataclass(frozen=True, kw_only=True)
class Quantization:
    """In which precision the weights are kept."""

    weights: dict[str, int]  # how many of them in each precision
    others: dict[str, Precision]  # those in another precision than the bundle's, by name; of a mixed one, all
    calibration: int  # sentences that the rounding was fitted to; 0: to the nearest numbers


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of ``manifest.json``: closed, so that a key too many or too few is an error."""

    format_version: int
    family: str
    architecture: Architecture | None  # null: a module of its own kind
    parameters: int
    max_positions: int  # tokens of the longest source, and of the longest target
    tokens: SpecialTokens
    tokenizer: Tokenization
    languages: Languages
    precision: Precision
    quantization: Quantization | None  # null: every weight is as it was trained
    dialect: Dialect
    opset: int
    generation: GenerationOptions
    rights: Rights
    tools: dict[str, str]
    files: dict[str, FileEntry]
    parity: Parity | None  # null: nobody has compared it with the original

    def __post_init__(self) -> None:
        if self.parameters < 1:
            raise ValueError(f"parameters is {self.parameters}, but must be at least 1")
        if not 1 <= self.max_positions <= MOST_POSITIONS:
            raise ValueError(f"max_positions is {self.max_positions}, but must be between 1 and {MOST_POSITIONS:,}")
        if max(self.generation.num_beams, self.generation.num_return_sequences) > MOST_BEAMS:
            raise ValueError(f"generation has more than {MOST_BEAMS:,} beams or translations")
        self._check_files()

    @property
    def bytes_per_state(self) -> int:
        """Of a number in the cache and in what the encoder hands over."""
        return 2 if self.precision == "fp16-compute" else 4

    def _check_files(self) -> None:
        wanted = {
            tensor_names.ENCODER,
            tensor_names.DECODER,
            tensor_names.WEIGHTS,
            *self.tokenizer.files,
        }  # a scorer is optional
        shortlist = {tensor_names.SHORTLIST, tensor_names.SHORT_DECODER, tensor_names.WORDS_GRAPH}
        if shortlist & self.files.keys():
            wanted |= shortlist
        missing = sorted(wanted - self.files.keys())
        if missing:
            raise ValueError(f"files does not name {', '.join(missing)}")
        if self.tokenizer.source_length > self.max_positions:
            raise ValueError(f"tokenizer.source_length is above max_positions, which is {self.max_positions}")
        outside = [name for name in self.files if not _is_plain(name)]
        if outside:
            raise ValueError(f"files names {short(outside[0])}, which is not a plain file name")


def _is_plain(name: str) -> bool:
    """Whether it is the name of a file in the folder, and one that file systems take."""
    return (
        Path(name).name == name and name not in ("", ".", "..") and len(name.encode(errors="replace")) <= LONGEST_NAME
    )


@dataclass(frozen=True)
class Bundle:
    """A bundle whose manifest was read and whose files were checked."""

    folder: Path
    manifest: Manifest

    @property
    def size(self) -> int:
        """Bytes of all files together, the manifest included."""
        return (
            sum(entry.size for entry in self.manifest.files.values())
            + (self.folder / tensor_names.MANIFEST).stat().st_size
        )

    @property
    def size_text(self) -> str:
        """The size in words, and for each parameter."""
        parameters = self.manifest.parameters
        return (
            f"{self.size / 1e6:.1f} MB for {parameters / 1e6:.2f} million parameters "
            f"({self.size / parameters:.3f} bytes each)"
        )


def load_bundle(folder: Path, *, check_hashes: bool = True, require_signature: Path | None = None) -> Bundle:
    """Read a bundle's manifest, check that each file is the one it names, and look through the graphs.

    ``require_signature`` is a public key: its owner must have signed the manifest, and the hashes are always checked.
    """
    content = _read_bytes(folder)
    if require_signature is not None:
        from seq2edge.bundle.signing import check_signature

        check_signature(folder, content, require_signature)
    manifest = read_manifest(content, folder / tensor_names.MANIFEST)
    for name, entry in manifest.files.items():
        _check_file(folder / name, entry, check_hashes=check_hashes or require_signature is not None)
    vet_graphs(folder, manifest)
    return Bundle(folder, manifest)


def _read_bytes(folder: Path) -> bytes:
    path = folder / tensor_names.MANIFEST
    if not path.is_file():
        raise BundleError(
            f"{folder} is not a bundle: it has no {tensor_names.MANIFEST}; make one with  seq2edge export"
        )
    if path.is_symlink():
        raise BundleError(f"{path} is a link; a bundle is a folder of plain files")
    with path.open("rb") as file:
        content = file.read(MANIFEST_BYTES + 1)
    if len(content) > MANIFEST_BYTES:
        raise BundleError(f"{path} is larger than any manifest")
    return content


def read_manifest(raw: bytes, path: Path) -> Manifest:
    """The manifest in the bytes of a file; ``path`` is its name in errors."""
    try:
        content = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is not JSON in UTF-8 ({error})") from None
    version = content.get("format_version") if isinstance(content, dict) else None
    if version != FORMAT_VERSION:
        raise BundleError(
            f"{path} has format version {short(version)}, but this seq2edge reads version {FORMAT_VERSION}"
        )
    try:
        return read_closed(Manifest, content, where="manifest", complete=True)
    except ClosedError as error:
        raise BundleError(f"{path} is not as it should be: {error}") from None


def vet_graphs(folder: Path, manifest: Manifest) -> None:
    """Every graph must be one that onnxruntime can be given, and all of them must fit together."""
    weights_bytes, portable = manifest.files[tensor_names.WEIGHTS].size, manifest.dialect == "portable"
    found = {
        name: vet_graph(folder / name, weights_bytes=weights_bytes, portable=portable)
        for name in tensor_names.GRAPHS
        if name in manifest.files
    }
    check_graph_signatures(found)


def _check_file(path: Path, entry: FileEntry, *, check_hashes: bool) -> None:
    if path.is_symlink() or not path.is_file():
        raise BundleError(f"{path} is missing or not a plain file; copy the bundle again")
    size = path.stat().st_size
    if size != entry.size:
        raise BundleError(f"{path} has {size:,} bytes instead of {entry.size:,}; copy the bundle again")
    if check_hashes and sha256_of(path) != entry.sha256:
        raise BundleError(f"{path} is not the file that was exported (its sha256 differs); copy the bundle again")
