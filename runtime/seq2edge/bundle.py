"""The bundle folder: its manifest, and the checks before anything in it is used; needs nothing."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seq2edge import names
from seq2edge.architecture import Architecture
from seq2edge.closed import ClosedError, read_closed
from seq2edge.errors import BundleError
from seq2edge.files import sha256_of
from seq2edge.generation import GenerationOptions
from seq2edge.languages import Languages
from seq2edge.parity import Parity
from seq2edge.tokenization import Tokenization
from seq2edge.tokens import SpecialTokens

FORMAT_VERSION = 1
EMBEDDED = Path(__file__).parent / "models" / "en-de"
MANIFEST_BYTES = 1_000_000  # far more than any manifest has; a larger one is not read

Precision = Literal["fp32", "fp16", "int8", "int4", "mixed"]
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
        wanted = {names.ENCODER, names.DECODER, names.WEIGHTS, *self.tokenizer.files}  # a scorer is optional
        if names.SHORTLIST in self.files:
            wanted |= {names.SHORT_DECODER, names.WORDS_GRAPH}
        missing = sorted(wanted - self.files.keys())
        if missing:
            raise ValueError(f"files does not name {', '.join(missing)}")
        if self.tokenizer.source_length > self.max_positions:
            raise ValueError(f"tokenizer.source_length is above max_positions, which is {self.max_positions}")
        outside = [name for name in self.files if Path(name).name != name or name in ("", ".", "..")]
        if outside:
            raise ValueError(f"files names {outside[0]!r}, which is not a plain file name")


@dataclass(frozen=True)
class Bundle:
    """A bundle whose manifest was read and whose files were checked."""

    folder: Path
    manifest: Manifest

    @property
    def size(self) -> int:
        """Bytes of all files together, the manifest included."""
        return sum(entry.size for entry in self.manifest.files.values()) + (self.folder / names.MANIFEST).stat().st_size

    @property
    def size_text(self) -> str:
        """The size in words, and for each parameter."""
        parameters = self.manifest.parameters
        return (
            f"{self.size / 1e6:.1f} MB for {parameters / 1e6:.2f} million parameters "
            f"({self.size / parameters:.3f} bytes each)"
        )


def load_bundle(folder: Path, *, check_hashes: bool = True) -> Bundle:
    """Read a bundle's manifest and check that each file is the one it names."""
    manifest = _read_manifest(folder)
    for name, entry in manifest.files.items():
        _check_file(folder / name, entry, check_hashes=check_hashes)
    return Bundle(folder, manifest)


def _read_manifest(folder: Path) -> Manifest:
    path = folder / names.MANIFEST
    if not path.is_file():
        raise BundleError(f"{folder} is not a bundle: it has no {names.MANIFEST}; make one with  seq2edge export")
    if path.stat().st_size > MANIFEST_BYTES:
        raise BundleError(f"{path} is larger than any manifest")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise BundleError(f"{path} is not JSON in UTF-8 ({error})") from None
    version = content.get("format_version") if isinstance(content, dict) else None
    if version != FORMAT_VERSION:
        raise BundleError(f"{path} has format version {version!r}, but this seq2edge reads version {FORMAT_VERSION}")
    try:
        return read_closed(Manifest, content, where="manifest", complete=True)
    except ClosedError as error:
        raise BundleError(f"{path} is not as it should be: {error}") from None


def _check_file(path: Path, entry: FileEntry, *, check_hashes: bool) -> None:
    if path.is_symlink() or not path.is_file():
        raise BundleError(f"{path} is missing or not a plain file; copy the bundle again")
    size = path.stat().st_size
    if size != entry.size:
        raise BundleError(f"{path} has {size:,} bytes instead of {entry.size:,}; copy the bundle again")
    if check_hashes and sha256_of(path) != entry.sha256:
        raise BundleError(f"{path} is not the file that was exported (its sha256 differs); copy the bundle again")
