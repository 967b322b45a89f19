"""Draw the pictures of docs/transformer.md from the default model: python docs/transformer/render.py (make pictures).

Which head a picture shows is chosen by what it does, so that the text fits other models too.
"""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path

import numpy as np

from seq2edge import Translator
from seq2edge.explain.explanation import TEMPERATURES, Explanation, explain
from seq2edge.explain.replay import AttentionMaps
from seq2edge.search import Scores

HERE = Path(__file__).parent
SENTENCE = "The old man sees a red house near the river."
CELL, LABEL, FONT, SHADES = 24, 84, 13, 32
COLD, HOT, INK, QUIET, HATCH = (255, 255, 255), (18, 58, 156), "#14181f", "#56606e", "#c2c9d4"


def main() -> None:
    for name, picture in pictures(explain(Translator(threads=1), SENTENCE)).items():
        (HERE / name).write_text(picture, encoding="utf-8")


def pictures(one: Explanation) -> dict[str, str]:
    """Return every picture by its file name."""
    return {
        "positions.svg": positions(one),
        "scores.svg": scores(one),
        "heads.svg": heads(one),
        "masks.svg": masks(one),
        "cross.svg": cross(one),
        "cache.svg": cache(one),
        "temperature.svg": temperature(one),
        "beams.svg": beams(one),
    }


def positions(one: Explanation) -> str:
    assert one.replay.positions is not None
    rows, columns = len(one.source), 64
    shares = (one.replay.positions[:, :columns] + 1) / 2
    body = cells(shares, LABEL, 24, width=9, height=16) + labels(one.source_pieces, LABEL, 24, height=16)
    return svg(LABEL + columns * 9 + 8, 24 + rows * 16 + 8, caption("The first 64 numbers of each position") + body)


def scores(one: Explanation) -> str:
    """Draw the scores and the weights of the encoder's head that looks at the piece before most."""
    maps = attention(one, "encoder")
    layer, head = best_head(maps, lambda weights: float(np.diagonal(weights, -1, -2, -1).mean()))
    size, gap = len(one.source), 60
    found = maps.scores[layer, head, :, :size]
    shares = (found - found.min()) / np.ptp(found)
    top, left = 24 + LABEL, 2 * LABEL + size * CELL + gap
    body = matrix(shares, one.source_pieces, one.source_pieces, LABEL, top, f"q·k, layer {layer + 1}, head {head + 1}")
    weights = maps.weights[layer, head, :, :size]
    body += matrix(weights, one.source_pieces, one.source_pieces, left, top, "softmax: each row sums to 1")
    return svg(left + size * CELL + 8, top + size * CELL + 8, body)


def heads(one: Explanation) -> str:
    """Draw all heads of the encoder as small maps."""
    maps, cell, gap = attention(one, "encoder"), 6, 14
    size, (layers, count) = len(one.source), maps.weights.shape[:2]
    side = size * cell + gap
    body = caption("The heads of the encoder: one row for each layer")
    for layer in range(layers):
        for head in range(count):
            x, y = 8 + head * side, 26 + layer * side
            body += cells(maps.weights[layer, head, :, :size], x, y, width=cell, height=cell)
            body += f'<rect x="{x}" y="{y}" width="{side - gap}" height="{side - gap}" fill="none" stroke="{HATCH}"/>'
    return svg(max(8 + count * side, 340), 26 + layers * side, body)


def masks(one: Explanation) -> str:
    padding, causal = (np.isneginf(attention(one, kind).scores[0, 0]) for kind in ("cross", "decoder"))
    source = [*one.source_pieces, *["(padding)"] * (one.replay.padded_length - len(one.source))]
    target, top, left = one.target_pieces[: len(causal)], 24 + LABEL, 2 * LABEL + padding.shape[1] * CELL + 40
    body = matrix(np.where(padding, np.nan, 0.75), target, source, LABEL, top, "padding mask")
    body += matrix(np.where(causal, np.nan, 0.75), target, target, left, top, "causal mask")
    return svg(left + causal.shape[1] * CELL + 8, top + len(causal) * CELL + 8, body)


def cross(one: Explanation) -> str:
    """Draw the head of cross-attention whose weights are most decided."""
    maps = attention(one, "cross")
    layer, head = best_head(maps, lambda weights: float(weights.max(axis=1).mean()))
    weights, top = maps.weights[layer, head, :, : len(one.source)], 24 + LABEL
    title = f"cross-attention, layer {layer + 1}, head {head + 1}"
    body = matrix(weights, one.target_pieces[: len(weights)], one.source_pieces, LABEL, top, title)
    return svg(LABEL + len(one.source) * CELL + 8, top + len(weights) * CELL + 8, body)


def cache(one: Explanation) -> str:
    """Draw which keys and values each step computes (dark) and reads (light)."""
    count, top = len(one.inputs), 24 + LABEL
    shares = np.where(np.tri(count, dtype=bool), 0.2, np.nan) + 0.7 * np.eye(count)
    names = [f"step {step + 1}" for step in range(count)]
    body = matrix(shares, names, one.target_pieces[:count], LABEL, top, "dark: computed in this step; light: kept")
    kept = one.replay.cache.bytes
    for step, size in enumerate(kept):
        body += text(LABEL + count * CELL + 10, top + (step + 0.65) * CELL, f"{size:,} bytes", QUIET)
    return svg(LABEL + count * CELL + 110, top + count * CELL + 8, body)


def temperature(one: Explanation) -> str:
    """Draw the likeliest pieces of the least certain step at three temperatures."""
    number = min(range(len(one.steps)), key=lambda step: one.steps[step].log_probability)
    step, width, row, shown = one.steps[number], 200, 20, 7
    body = caption(f"After {' '.join(one.target_pieces[: number + 1])}")
    for place, value in enumerate((0.5, 1.0, 2.0)):
        x, log_total = 8 + place * (width + 120), step.log_totals[TEMPERATURES.index(value)]
        body += text(x, 46, f"temperature {value:g}", QUIET)
        for line, (token, logit) in enumerate(zip(step.tokens[:shown], step.logits[:shown], strict=True)):
            share, y = np.exp(logit / value - log_total), 60 + line * row
            body += text(x, y + 11, one.pieces[token])
            body += f'<rect x="{x + 84}" y="{y}" width="{max(1, share * width * 0.7):.1f}" height="14" fill="#2456d6"/>'
            body += text(x + 90 + share * width * 0.7, y + 11, f"{share:.1%}", QUIET)
    return svg(8 + 3 * (width + 120), 66 + shown * row, body)


def beams(one: Explanation) -> str:
    """Draw the first steps of the beam search."""
    assert one.tree is not None
    width, height, across, down, steps = 104, 34, 150, 42, one.tree.steps[:5]
    body, lines = caption("Beam search: solid goes on, dashed is pruned, blue is the translation"), ""
    body += node(8, 32, one.target_pieces[0], "", width, height, "#2456d6", "#dfe7fb")
    places = {0: (8, 32)}
    for column, nodes in enumerate(steps):
        after: dict[int, tuple[int, int]] = {}
        for row, found in enumerate(nodes):
            x, y = 8 + (column + 1) * across, 32 + row * down
            from_x, from_y = places.get(found.parent, places[0])
            style = ("#2456d6", 3) if found.best else (HATCH, 1)
            start, end, middle = f"{from_x + width},{from_y + height / 2}", f"{x},{y + height / 2}", x - 22
            curve = f"M{start} C{middle},{from_y + height / 2} {middle},{y + height / 2} {end}"
            lines += f'<path d="{curve}" fill="none" stroke="{style[0]}" stroke-width="{style[1]}"/>'
            small, dash = f"{np.exp(found.token_score):.1%}  Σ {found.score:.2f}", found.fate in ("pruned", "worse")
            edge, fill = ("#2456d6", "#dfe7fb") if found.best else (HATCH if dash else "#7f9ae6", "#fff")
            body += node(x, y, one.pieces[found.token], small, width, height, edge, fill, dashed=dash)
            if found.beam is not None:
                after[found.beam] = (x, y)
        places = after
    return svg(8 + len(steps) * across + width + 8, 32 + max(map(len, steps)) * down, lines + body)


def attention(one: Explanation, kind: str) -> AttentionMaps:
    return next(maps for maps in one.replay.attention if maps.kind == kind)


def best_head(maps: AttentionMaps, measure: Callable[[Scores], float]) -> tuple[int, int]:
    layers, heads = maps.weights.shape[:2]
    every = [(layer, head) for layer in range(layers) for head in range(heads)]
    return max(every, key=lambda place: measure(maps.weights[place]))


def matrix(shares: Scores, rows: Sequence[str], columns: Sequence[str], x: int, y: int, title: str) -> str:
    """Draw a map with labels; not-a-number is hidden by a mask."""
    return text(x, 16, title) + labels(rows, x, y) + top_labels(columns, x, y) + cells(shares, x, y)


def cells(shares: Scores, x: int, y: int, *, width: int = CELL, height: int = CELL) -> str:
    """Draw a cell for each share, all cells of a colour as one path."""
    gap, paths = int(width > 8), dict[str, str]()
    for row, line in enumerate(shares.tolist()):
        for column, share in enumerate(line):
            left, top = x + column * width, y + row * height
            if np.isnan(share):
                paths[HATCH] = paths.get(HATCH, "") + f"M{left + 4} {top + height - 4}l{width - 8} {8 - height}l1 1z"
            elif colour(share) != colour(0):
                box = f"M{left} {top}h{width - gap}v{height - gap}h{gap - width}z"
                paths[colour(share)] = paths.get(colour(share), "") + box
    return "".join(f'<path fill="{fill}" d="{d}"/>' for fill, d in paths.items())


def colour(share: float) -> str:
    """Return one of a few shades, which keeps pictures small."""
    step = round(min(1.0, share) * SHADES) / SHADES
    mixed = (round(cold + (hot - cold) * step) for cold, hot in zip(COLD, HOT, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def labels(pieces: Iterable[str], x: int, y: int, *, height: int = CELL) -> str:
    return "".join(text(x - 6, y + (row + 0.5) * height + 4, piece, anchor="end") for row, piece in enumerate(pieces))


def top_labels(pieces: Iterable[str], x: int, y: int) -> str:
    places = ((x + (column + 0.5) * CELL + 4, piece) for column, piece in enumerate(pieces))
    return "".join(
        f'<text transform="translate({left:g} {y - 6}) rotate(-90)">{escape(piece)}</text>' for left, piece in places
    )


def node(
    x: int, y: int, piece: str, small: str, width: int, height: int, edge: str, fill: str, *, dashed: bool = False
) -> str:
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    box = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="{edge}"{dash}/>'
    return box + text(x + 6, y + 14, piece) + f'<text x="{x + 6}" y="{y + 28}" font-size="10">{escape(small)}</text>'


def text(x: float, y: float, content: str, fill: str = INK, *, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" fill="{fill}" text-anchor="{anchor}">{escape(content)}</text>'


def caption(content: str) -> str:
    return text(8, 16, content)


def svg(width: int, height: int, body: str) -> str:
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-size="{FONT}" '
    return f'{frame}font-family="sans-serif"><rect width="100%" height="100%" fill="#fff"/>{body}</svg>\n'


if __name__ == "__main__":
    main()
