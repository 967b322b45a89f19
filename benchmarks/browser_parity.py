"""Count the sentences for which the browser's runtime gives the tokens, text and notes of Python.

    python benchmarks/browser_parity.py BUNDLE FILE [--float32 BUNDLE] [--sentences 1000] [--chromium] [--num-beams 1,4]

FILE has one sentence per line. An int8 bundle is compared with the float32 bundle of the same checkpoint, given with
--float32, whose weights are rounded as those of the int8 bundle. In node; with --chromium, in chromium as well.
`make test-web` installs what it needs.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from models import ROOT
from seq2edge import Translator
from seq2edge.web.site import make_site

sys.path.insert(0, str(ROOT / "tests" / "support"))
from javascript import call_node, visit
from widened_bundle import write_widened

FOLDER = click.Path(path_type=Path)
EXACT = ("text", "tokens", "notes")


@click.command()
@click.argument("bundle", type=FOLDER)
@click.argument("file", type=FOLDER)
@click.option("--float32", type=FOLDER, help="The float32 bundle of the same checkpoint, for an int8 bundle.")
@click.option("--sentences", "count", default=1000, show_default=True)
@click.option("--num-beams", default="1,4", show_default=True)
@click.option("--chromium", is_flag=True, help="In chromium besides node.")
def main(bundle: Path, file: Path, float32: Path | None, count: int, num_beams: str, chromium: bool) -> None:
    """Compare the first sentences of FILE."""
    texts = file.read_text(encoding="utf-8").splitlines()[:count]
    options: list[dict[str, Any]] = [{"num_beams": int(beams)} for beams in num_beams.split(",")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        translator = Translator(write_widened(bundle, float32, folder / "widened") if float32 else bundle, threads=1)
        expected = [[one.as_dict() for one in translator.translate(texts, **chosen)] for chosen in options]
        found = {"node": call_node("translate", folder=str(bundle), texts=texts, options=options)}
        if chromium:
            found["chromium"] = in_chromium(bundle, folder / "site", texts, options)
    for place, outputs in found.items():
        for chosen, wanted, got in zip(options, expected, outputs, strict=True):
            differing = [
                text for text, one, other in zip(texts, wanted, got, strict=True) if exact(one) != exact(other)
            ]
            print(f"{place}, {chosen}: {len(texts) - len(differing)} of {len(texts)} equal", *differing[:3], sep="\n  ")


def in_chromium(bundle: Path, site: Path, texts: list[str], options: list[dict[str, Any]]) -> Any:
    make_site([bundle], site)
    return visit(site, bundle=f"bundles/{bundle.resolve().name}", texts=texts, options=options)["translations"]


def exact(translation: dict[str, Any]) -> list[Any]:
    """Return what must be equal; scores are float32 sums, whose last digits depend on the order."""
    return [list(translation[name]) for name in EXACT]


if __name__ == "__main__":
    main()
