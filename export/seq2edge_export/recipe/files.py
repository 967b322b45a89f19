"""The tokenizer files of a recipe, and their names in a bundle; needs nothing."""

from dataclasses import replace
from pathlib import Path

from seq2edge.tokenization import Tokenization


def tokenizer_files(rules: Tokenization, folder: Path) -> tuple[Tokenization, dict[str, Path]]:
    """The same rules with plain file names, and the files that will have them."""
    source, target = _names("tokenizer", rules.source, rules.target)
    source_codes, target_codes = _names("codes", rules.source_codes, rules.target_codes)
    new = replace(rules, source=source, target=target, source_codes=source_codes, target_codes=target_codes)
    pairs = (
        (new.source, rules.source),
        (new.target, rules.target),
        (new.source_codes, rules.source_codes),
        (new.target_codes, rules.target_codes),
    )
    return new, {name: folder / path for name, path in pairs if name}


def _names(what: str, source: str, target: str) -> tuple[str, str]:
    """Plain names that keep the suffix: one for a file that both sides use, else one a side."""
    if source == target:
        return (what + Path(source).suffix,) * 2 if source else ("", "")
    return f"source.{what}{Path(source).suffix}", f"target.{what}{Path(target).suffix}"
