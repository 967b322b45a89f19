"""Whether a bundle was made from an original at all, and has its settings still; needs nothing."""

from dataclasses import asdict

from seq2edge.architecture import Architecture
from seq2edge.bundle import Bundle
from seq2edge.errors import DataError
from seq2edge.files import sha256_of
from seq2edge_export.original import Original


def check_kinship(bundle: Bundle, original: Original) -> None:
    """Refuse to compare models of different shapes: their numbers say nothing about each other."""
    ours = _shape(bundle.manifest.architecture, bundle.manifest.parameters)
    theirs = _shape(original.architecture, original.parameters)
    differing = [
        f"{name} {ours.get(name)} instead of {theirs.get(name)}"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]
    if differing:
        raise DataError(f"{bundle.folder} was not made from this checkpoint: it has {', '.join(differing)}")


def differing_settings(bundle: Bundle, original: Original) -> list[str]:
    """Everything besides the graphs that decides what is said, where it is not the original's."""
    manifest = bundle.manifest
    pairs = {
        "special ids": (manifest.tokens, original.tokens),
        "tokenizer settings": (manifest.tokenizer, original.tokenization),
        "search defaults": (manifest.generation, original.generation),
        "languages": (manifest.languages, original.languages),
    }
    found = [f"the {what} are not the original's" for what, (ours, theirs) in pairs.items() if ours != theirs]
    hashes = {name: sha256_of(path) for name, path in original.tokenizer_files.items()}
    changed = [name for name in hashes if name in manifest.files and manifest.files[name].sha256 != hashes[name]]
    return found + [f"{name} is not the original's" for name in sorted(changed)]


def _shape(architecture: Architecture | None, parameters: int) -> dict[str, object]:
    return {"parameters": parameters, **(asdict(architecture) if architecture else {})}
