"""Where a bundle may be written: nothing that is not a bundle is ever replaced; needs nothing."""

from pathlib import Path

from seq2edge import names
from seq2edge.errors import UsageError


def check_target(target: Path, *, force: bool, source: Path | None = None) -> None:
    """Refuse a place where something else is, or where the checkpoint itself would be lost."""
    if target.name in ("", ".."):
        raise UsageError(f"{target} is no name for a new folder")
    if source is not None and source.resolve().is_relative_to(target.resolve()):
        raise UsageError(f"{target} holds the checkpoint; choose another place for the bundle")
    if target.is_symlink():
        raise UsageError(f"{target} is a link; name the folder itself")
    if not target.exists():
        return
    if not force:
        raise UsageError(f"{target} exists already; give --force to replace it")
    if not target.is_dir() or (any(target.iterdir()) and not (target / names.MANIFEST).is_file()):
        raise UsageError(f"{target} is not a bundle, so --force does not replace it; choose another name")
