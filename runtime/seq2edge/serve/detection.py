"""Detect the language of a text, with py3langid."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from seq2edge.errors import imports_of_extras

LONGEST = 1000  # characters that are looked at


@cache
def _identifier() -> Any:
    with imports_of_extras():
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def detect(text: str, among: Sequence[str] = ()) -> list[tuple[str, float]]:
    """Return the likeliest languages of a text with their confidence in percent, best first.

    ``among`` are the languages to choose from, as far as the detector knows them.
    """
    ranked = [(code, round(100 * float(share), 1)) for code, share in _identifier().rank(text[:LONGEST])]
    plain = {code.replace("_", "-").partition("-")[0].lower(): code for code in among}
    chosen = [(plain.get(code, code), share) for code, share in ranked if not among or code in plain]
    return chosen[:3] if not among else chosen[:1] or [(among[0], 0.0)]
