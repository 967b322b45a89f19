"""Write explanations as one HTML file that needs nothing else."""

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.explain.comparison import ExplainedDifference, compare
from seq2edge.explain.explanation import TEMPERATURES, Explanation
from seq2edge.search import Scores

PAGE = Path(__file__).parent / "page"


def write_report(explanations: Sequence[Explanation], path: Path) -> None:
    """Write a page about one model, or about two beside each other; it appears when it is complete."""
    with replaced_file(path) as new:
        new.write_text(render(explanations), encoding="utf-8")


def render(explanations: Sequence[Explanation]) -> str:
    """Return the page: its style, its script and its data are part of it, and it may load nothing else."""
    style, script = ((PAGE / name).read_text(encoding="utf-8") for name in ("style.css", "page.js"))
    difference = compare(*explanations) if len(explanations) == 2 else None
    content = {
        "temperatures": TEMPERATURES,
        "runs": [_content(one) for one in explanations],
        "difference": None if difference is None else _difference(difference),
    }
    return Template((PAGE / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"{explanations[0].text} → {explanations[0].translation.text}"),
        policy=f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'",
        style=style,
        script=script,
        data=_json(content),
    )


def _content(one: Explanation) -> dict[str, Any]:
    replay = one.replay
    return {
        "name": one.name,
        "model": _model(one),
        "text": one.text,
        "translation": one.translation.as_dict(),
        "source": one.source,
        "source_pieces": one.source_pieces,
        "padded_length": replay.padded_length,
        "target_pieces": one.target_pieces,
        "target": (*one.inputs, one.translation.tokens[-1]),
        "pieces": one.pieces,
        "steps": [asdict(step) for step in one.steps],
        "positions": None if replay.positions is None else _array(replay.positions),
        "attention": {
            maps.kind: {
                "scores": _array(maps.scores),
                "weights": _array(maps.weights),
                "recomputed": maps.recomputed,
            }
            for maps in replay.attention
        },
        "cache": asdict(replay.cache) | {"norms": {name: row.tolist() for name, row in replay.cache.norms.items()}},
        "tree": None if one.tree is None else asdict(one.tree),
        "search": _search(one),
        "times": asdict(one.times),
        "notes": [*one.notes, *replay.missing],
    }


def _model(one: Explanation) -> dict[str, Any]:
    manifest, shape = one.manifest, one.manifest.architecture
    chosen = ("width", "heads", "encoder_layers", "decoder_layers", "feed_forward", "positions", "decoder_cell")
    sizes = {} if shape is None else {name: getattr(shape, name) for name in chosen}
    return {
        "family": manifest.family,
        "precision": manifest.precision,
        "dialect": manifest.dialect,
        "parameters": manifest.parameters,
        **sizes,
    }


def _search(one: Explanation) -> dict[str, Any]:
    options = one.options
    return {
        "num_beams": options.num_beams,
        "do_sample": options.do_sample,
        "length_penalty": options.length_penalty,
    }


def _difference(one: ExplainedDifference) -> dict[str, Any]:
    return asdict(one) | {"heads": {kind: heads.tolist() for kind, heads in one.heads.items()}}


def _array(values: Scores) -> dict[str, Any]:
    """Encode an array of 32-bit floats exactly."""
    return {"shape": values.shape, "data": b64encode(values.astype("<f4").tobytes()).decode()}


def _json(content: Any) -> str:
    """Encode data for a script element, which a less-than sign could end."""
    encoded = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    return encoded.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be part of a page")


def _hash(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"
