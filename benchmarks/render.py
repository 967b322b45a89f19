"""Render the tables and pictures of the README and the docs from benchmarks/results.

    python benchmarks/render.py             rewrite the tables and draw the pictures
    python benchmarks/render.py --check     only check that the pages are up to date
    python benchmarks/render.py --quick     only check that what --quick runs have written can be rendered

A table stands between the markers  <!-- bench:NAME -->  and  <!-- /bench -->.
"""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import click

from goals import ALL_CORES, COLUMNS, FP32, INT8, OURS, WORKS, goal_rows, ratios, seconds_of, two_digits
from results import QUICK_RESULTS, RESULTS, Row, read

ROOT = Path(__file__).parents[1]
PAGES = tuple(
    ROOT / page
    for page in (
        "README.md",
        "docs/browser.md",
        "docs/default-model.md",
        "docs/performance.md",
        "docs/serving.md",
        "docs/measurements/performance.md",
        "docs/measurements/quantization.md",
    )
)
MARKER = re.compile(r"(<!-- bench:([a-z0-9-]+) -->\n)(.*?)(<!-- /bench -->)", re.DOTALL)
NOT_YET = "Not measured yet: `make bench` fills this in.\n"
DEFAULT_MODEL = "default en-pt"  # the name that its rows in precisions.jsonl have
IN_README = {
    "seq2edge fp32": "fp32",
    "seq2edge int8": "int8",
    "seq2edge int4 calibrated": "int4, calibrated",
    "CTranslate2 int8": "CTranslate2 int8",
}
KERNELS = ("avx2", "avx_vnni", "avx512_vnni", "amx_int8", "asimddp", "i8mm")  # of 8-bit products, slower ones first
LOADING = ("megabytes", "beyond_runtime", "ratio")
TIMES = ("greedy, batch 1", "greedy, batch 16", "beam 4, batch 16")


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 if a page is out of date.")
@click.option("--quick", is_flag=True, help="Render what --quick runs have written, and draw it in build/bench.")
def main(check: bool, quick: bool) -> None:
    """Render all pages."""
    if quick:
        print(*(block(QUICK_RESULTS) for block in BLOCKS.values()), sep="\n")
        draw_pictures(QUICK_RESULTS, QUICK_RESULTS.parent)
        return
    stale = [page for page in PAGES if page.exists() and rendered(page.read_text("utf-8")) != page.read_text("utf-8")]
    for page in stale:
        print(f"{page.relative_to(ROOT)} is out of date: run  make bench-render" if check else page.relative_to(ROOT))
        if not check:
            page.write_text(rendered(page.read_text("utf-8")), encoding="utf-8")
    if check:
        sys.exit(bool(stale))
    draw_pictures(RESULTS, ROOT / "docs")


def draw_pictures(folder: Path, target: Path) -> None:
    from pictures import draw_all

    for picture in draw_all(folder, target):
        print(picture.relative_to(ROOT))


def rendered(page: str, folder: Path = RESULTS) -> str:
    """Return a page with its tables rendered from the results."""

    def fill(marker: re.Match[str]) -> str:
        opening, name, _, closing = marker.groups()
        return opening + (BLOCKS[name](folder) or NOT_YET) + closing

    return MARKER.sub(fill, page)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def precisions_in_readme(folder: Path) -> str:
    """Size, quality and speed of the default model."""
    rows = [row for row in read("precisions", folder) if row["work"] == DEFAULT_MODEL and row["system"] in IN_README]
    body = [
        [
            IN_README[row["system"]],
            f"{row['megabytes']:.2f}",
            f"{row['bleu']:.2f}",
            *(f"{row['milliseconds'][name]:.1f}" for name in (TIMES[0], TIMES[-1])),
        ]
        for row in rows
    ]
    return table(["", "MB", "BLEU", *(f"ms, {name}" for name in (TIMES[0], TIMES[-1]))], body) if body else ""


def precisions(folder: Path) -> str:
    rows = read("precisions", folder)
    if not rows:
        return ""
    head = ["model", "system", "MB", "BLEU", "chrF", "top-1 agreement", *(f"ms: {name}" for name in TIMES)]
    body = [
        [
            row["work"],
            row["system"],
            str(row["megabytes"]),
            f"{row['bleu']:.2f}",
            f"{row['chrf']:.2f}",
            "" if row["agreement"] is None else f"{row['agreement']:.2%}",
            *(f"{row['milliseconds'][name]:.1f}" for name in TIMES),
        ]
        for row in rows
    ]
    return table(head, body)


def machine(folder: Path) -> str:
    """A line for each machine, after the models that were measured on it if there are several."""
    machines: dict[tuple[str, str], list[Row]] = {}
    for row in read("versus_peers", folder):
        found = row["machine"]
        machines.setdefault((found["cpu"], " ".join(found["flags"])), []).append(row)
    return "\n".join(_machine(rows, named=len(machines) > 1) for rows in machines.values())


def _machine(rows: list[Row], *, named: bool) -> str:
    found = rows[0]["machine"]
    works = ", ".join(dict.fromkeys(WORKS[row["work"]] for row in rows)) + ": " if named else ""
    tools = "; ".join(dict.fromkeys(row["tool"] for row in rows))
    loads = sorted({row["machine"]["load_average"] for row in rows if row["machine"]["load_average"] is not None})
    load = f"; load average when a run began {loads[0]} to {loads[-1]}" if loads else ""
    cpu = f"{works}{found['cpu']} ({' '.join(found['flags'])}), {found['allowed_cores']} of {found['cores']} cores"
    software = f"{found['system']}, Python {found['python']}; {tools}{load}; {found['time'][:10]}"
    return f"{cpu}, {software}.\n"


def versus(work: str) -> Callable[[Path], str]:
    """All engines on one work."""

    def block(folder: Path) -> str:
        rows = sorted((row for row in read("versus_peers", folder) if row["work"] == work), key=_place)
        head = ["setting", "precision", "engine", "lines", "lines/s", "ms/line", "CPU ms/line"]
        head += [f"{OURS} is", "equal outputs", "BLEU"]
        return table(head, [_versus_row(row, rows) for row in rows]) if rows else ""

    return block


def _place(row: Row) -> tuple[bool, int, int]:
    return row["precision"] != "int8", COLUMNS.index(row["column"]), row["num_beams"]


def _versus_row(row: Row, rows: list[Row]) -> list[str]:
    same = ("precision", "column", "num_beams")
    [ours] = (one for one in rows if one["engine"] == OURS and all(one[key] == row[key] for key in same))
    is_ours, seconds = row["engine"] == OURS, seconds_of(row)
    return [
        setting_name(row),
        row["precision"],
        f"**{OURS}**" if is_ours else row["engine"],
        f"{row['lines']:,}",
        f"{row['lines'] / seconds:,.1f}",
        f"{1e3 * min(row['wall']) / row['lines']:.2f}",
        f"{1e3 * min(row['cpu']) / row['lines']:.2f}" if row["cpu"] else "",
        "" if is_ours else f"{seconds / seconds_of(ours):.2f}x",
        "" if is_ours else f"{row['equal']:,}",
        "" if row["bleu"] is None else f"{row['bleu']:.2f}",
    ]


def setting_name(row: Row) -> str:
    """Name what was done: the base model has other batches than the rest of its column."""
    search = search_name(row["num_beams"])
    if row["column"] == ALL_CORES:
        return f"file, {row['workers']} cores, {search}"
    batch = "all at once" if row["batch_size"] is None else f"batch {row['batch_size']}"
    return f"{batch}, {search}"


def speed_picture(folder: Path) -> str:
    precisions = dict.fromkeys(row["precision"] for row in read("versus_peers", folder))
    return "\n".join(f"![Speed of every engine in {one}](performance-{one}.png)\n" for one in precisions)


def speed(folder: Path) -> str:
    """Speed relative to the fastest peer and its target, for each model, precision and setting."""
    targets = {(work, "int8"): floors for work, floors in INT8.items()}
    targets |= {(work, "fp32"): tuple(floor and FP32 for floor in floors) for work, floors in INT8.items()}
    return _speed(folder, {key: floors for key, floors in targets.items() if key != ("bergamot", "fp32")})


def speed_in_readme(folder: Path) -> str:
    """Draw and list the speed in int8."""
    found = _speed(folder, {(work, "int8"): floors for work, floors in INT8.items()}, _ratio)
    cpus = {_cpu(row["machine"]) for row in read("versus_peers", folder)}
    return f"![Speed](docs/performance-int8.png)\n\n{found}\n{'; '.join(sorted(cpus))}.\n" if found else ""


def _cpu(machine: Row) -> str:
    """Name a CPU with the instructions that its products use, and its cores."""
    *_, kernels = ("no fast kernels", *(flag for flag in KERNELS if flag in machine["flags"]))
    return f"{machine['cpu']} ({kernels}), {machine['allowed_cores']} cores"


Cell = Callable[[dict[int, float], float | None], str]  # of the ratios by beams, and the target


def _ratio(found: dict[int, float], floor: float | None) -> str:
    """Return the least ratio, bold if no peer is faster; the targets are in docs/performance.md."""
    if floor is None or not found:
        return ""
    ratio = min(found.values())
    return f"**{two_digits(ratio)}**" if ratio >= 1 else two_digits(ratio)


def _cell(found: dict[int, float], floor: float | None) -> str:
    if floor is None:
        return ""
    if not found:
        return f"? ≥{floor:g}"
    ratio = min(found.values())
    return f"**{two_digits(ratio)}** ≥{floor:g}" if ratio >= floor else f"{two_digits(ratio)} <{floor:g}"


def _speed(folder: Path, targets: dict[tuple[str, str], tuple[float | None, ...]], cell: Cell = _cell) -> str:
    rows, several = read("versus_peers", folder), len({precision for _, precision in targets}) > 1
    body = [
        [
            WORKS[work] + (f", {precision}" if several else ""),
            *(
                cell(ratios(rows, work, precision, column), floor)
                for column, floor in zip(COLUMNS, floors, strict=True)
            ),
        ]
        for (work, precision), floors in targets.items()
    ]
    return table(["", *COLUMNS], body) if rows else ""


def growth(folder: Path) -> str:
    rows = read("growth", folder)
    if not rows:
        return ""
    head = ["variable", "value", "seq2edge int8, ms", "CTranslate2 int8, ms", "ratio"]
    ours = [row for row in rows if row["kind"] == "seq2edge"]
    theirs = {(row["work"], row["size"]): row for row in rows if row["kind"] != "seq2edge"}
    body = [
        [
            row["work"],
            f"{row['size']:,}",
            f"{1e3 * min(row['rounds']):.1f}",
            f"{1e3 * min(theirs[row['work'], row['size']]['rounds']):.1f}",
            ratio_text(row["beside"]["ctranslate2"]["ratio"]),
        ]
        for row in ours
    ]
    return table(head, body) + "\n![Milliseconds over length, batch size and vocabulary](performance-growth.png)\n"


def memory(folder: Path) -> str:
    rows = read("memory", folder)
    if not rows:
        return ""
    loading = table(
        ["model", "precision", "MB on disk", "MB added by loading", "ratio"],
        [
            [WORKS[row["work"]], row["precision"], *(f"{row[name]:.2f}" for name in LOADING)]
            for row in rows
            if row["what"] == "loading"
        ],
    )
    body: dict[tuple[str, str], dict[tuple[int, int], str]] = {}
    for row in rows:
        if row["what"] == "translating" and row["peak_bytes"] is not None:
            setting = row["setting"]["batch_size"], row["setting"]["num_beams"]
            body.setdefault((WORKS[row["work"]], system_name(row)), {})[setting] = f"{row['peak_bytes'] / 1e6:.0f}"
    settings = sorted({setting for cells in body.values() for setting in cells})
    head = ["model", "system", *(f"batch {size}, {search_name(beams)}" for size, beams in settings)]
    translating = table(head, [[*key, *(cells.get(one, "") for one in settings)] for key, cells in body.items()])
    return f"{loading}\nPeak memory of the whole process while translating, MB:\n\n{translating}"


def cold_start(folder: Path) -> str:
    rows = read("cold_start", folder)
    if not rows:
        return ""
    body = [
        [
            row["work"],
            *(f"{row[name]:.3f}" for name in ("best", "median", "worst")),
            f"{row['cpu']:.3f}" if "cpu" in row else "",
            f"{row['resident_bytes'] / 1e6:.1f}" if row.get("resident_bytes") else "",
        ]
        for row in rows
    ]
    return table(
        ["process", "best, s", "median, s", "worst, s", "CPU time, s", "resident memory when loaded, MB"], body
    )


def limits(folder: Path) -> str:
    rows = read("limits", folder)
    if not rows:
        return ""
    found = rows[0]
    peaks = ", ".join(f"{value / 1e9:.0f} GOP/s in {name}" for name, value in found["peaks"].items())
    head = ["work", "precision", "required", "lower bound, ms", "measured, ms", "share of the limit"]
    body = [
        [
            row["work"],
            row["precision"],
            f"{row['bytes'] / 1e6:.1f} MB" if "bytes" in row else f"{row['operations'] / 1e9:.1f} GOP",
            f"{1e3 * row['least']:.2f}",
            f"{1e3 * row['seconds']:.2f}",
            f"{row['share']:.0%}",
        ]
        for row in rows[1:]
    ]
    return f"One core reads {found['bandwidth'] / 1e9:.1f} GB/s and computes {peaks}.\n\n" + table(head, body)


def goals(folder: Path) -> str:
    rows = goal_rows(folder)
    return table(["measurement", "target", "result", "met"], rows) if rows else ""


def ratio_text(ratio: Row) -> str:
    return f"{ratio['best']:.2f}x ({ratio['lowest']:.2f} to {ratio['highest']:.2f})"


def search_name(num_beams: int) -> str:
    return "greedy" if num_beams == 1 else f"beam {num_beams}"


def system_name(row: Row) -> str:
    """Name bundles by their precision, not by their folder."""
    return f"**seq2edge {row['precision']}**" if row["kind"] == "seq2edge" else str(row["system"])


def nodes(folder: Path) -> str:
    head = ["model", "precision", "batch", "graph", "nodes", "ms/run", "share of each operator"]
    body = [
        [
            WORKS[row["work"]],
            row["precision"],
            str(row["batch_size"]),
            row["graph"],
            str(row["nodes"]),
            f"{row['milliseconds']:.2f}",
            ", ".join(f"{name} {share:.0%}" for name, share in row["shares"].items()),
        ]
        for row in read("nodes", folder)
    ]
    return table(head, body) if body else ""


def steps(folder: Path) -> str:
    head = ["model", "precision", "batch", "search", "decoder, ms", "outside the graphs, ms", "share"]
    body = [
        [
            WORKS[row["work"]],
            row["precision"],
            str(row["batch_size"]),
            search_name(row["num_beams"]),
            f"{row['decoder']:.3f}",
            f"{row['outside']:.3f}",
            f"{row['outside'] / (row['decoder'] + row['outside']):.0%}",
        ]
        for row in read("steps", folder)
    ]
    return table(head, body) if body else ""


def shortlist_gain(folder: Path) -> str:
    head = ["model", "tokens per batch", "beams", "batch", "ms/sentence without", "with", "speed-up"]
    times = [f"ms {name}" for name in ("without", "with")]
    body = [
        [
            row["work"],
            f"{row['words']:,}",
            str(row["beams"]),
            str(row["batch"]),
            *(f"{row[name]:.1f}" for name in times),
            f"{row['ratio']:.2f}",
        ]
        for row in read("shortlist", folder)
        if "ratio" in row
    ]
    return table(head, body) if body else ""


def shortlist_loss(folder: Path) -> str:
    head = ["model", "beams", "sentences", "equal outputs", "BLEU without", "with"]
    body = [
        [
            row["work"],
            str(row["beams"]),
            f"{row['sentences']:,}",
            f"{row['equal']:.1%}",
            *(f"{row[name]:.2f}" for name in ("bleu without", "bleu with")),
        ]
        for row in read("shortlist", folder)
        if "equal" in row
    ]
    return table(head, body) if body else ""


def shortlist_products(folder: Path) -> str:
    """Microseconds by precision and rows, one column for each shortlist size."""
    body: dict[tuple[str, int], dict[str, float]] = {}
    for row in read("shortlist_products", folder):
        body.setdefault((row["work"], row["rows"]), {})[row["way"]] = row["microseconds"]
    ways = [way for way in next(iter(body.values()), {}) if way == "all" or way.endswith(" words")]
    rows = [[name, str(rows), *(f"{found[way]:.0f}" for way in ways)] for (name, rows), found in body.items()]
    return (
        table(
            ["", "rows", *("full vocabulary" if way == "all" else way.replace("words", "tokens") for way in ways)], rows
        )
        if rows
        else ""
    )


def fused_operators(folder: Path) -> str:
    """Microseconds by computation and operator, one column for each number of rows."""
    body: dict[tuple[str, str], dict[int, float]] = {}
    for row in read("fused_operators", folder):
        body.setdefault((row["work"], row["way"]), {})[row["rows"]] = row["microseconds"]
    counts = list(next(iter(body.values()), {}))
    rows = [[*names, *(f"{found[count]:.0f}" for count in counts)] for names, found in body.items()]
    return table(["", "operator", *(f"{count} rows" for count in counts)], rows) if rows else ""


def default_quality(folder: Path) -> str:
    """BLEU and chrF of the default model, one line for each text and system."""
    body: dict[tuple[str, str], list[str]] = {}
    for row in read("default_model", folder):
        if row["work"] == "quality":
            cells = body.setdefault((f"{row['text']} ({row['lines']:,} lines)", row["system"]), [])
            cells += [f"{row['bleu']:.2f}", f"{row['chrf']:.2f}"]
    head = ["text", "system", "BLEU, beam 4", "chrF, beam 4", "BLEU, greedy", "chrF, greedy"]
    return table(head, [[*key, *cells] for key, cells in body.items()]) if body else ""


def default_copies(folder: Path) -> str:
    for row in read("default_model", folder):
        if row["work"] == "copies":
            lost = table(["lost in", "translation"], row["lost"]) if row["lost"] else ""
            return f"{row['sentences'] - len(row['lost'])} of {row['sentences']} come through.\n\n{lost}"
    return ""


def default_samples(folder: Path) -> str:
    rows = [row for row in read("default_model", folder) if row["work"] == "sample"]
    return table(["English", "translation"], [[row["source"], row["translation"]] for row in rows]) if rows else ""


def serve(folder: Path) -> str:
    """Requests/s and latency of the server by the number of clients."""
    rows = [row for row in read("serve", folder) if row["work"] != "soak"]
    if not rows:
        return ""
    body = [
        [
            WORKS[row["work"]],
            str(row["clients"]),
            row["system"],
            f"{row['rate']:.1f}",
            *(f"{1000 * row[name]:.0f}" for name in ("p50", "p95", "p99")),
            f"{1000 * row['cpu']:.1f}",
        ]
        for row in sorted(rows, key=lambda row: (row["work"], row["clients"]))
    ]
    found = rows[0]["machine"]
    others = max(row["others"] for row in rows)
    line = f"{found['cpu']}, {found['cores']} cores; other processes took up to {100 * others:.0f} % of the CPUs.\n\n"
    heads = ["model", "clients", "server", "requests/s", "p50, ms", "p95, ms", "p99, ms", "CPU ms per request"]
    return table(heads, body) + "\n" + line + "".join(map(_serve_ratio, _serve_pairs(rows)))


def _serve_pairs(rows: list[Row]) -> list[tuple[Row, Row]]:
    """Pair our server with each other one, for 32 clients."""
    chosen = [row for row in rows if row["clients"] == 32]
    ours = {row["work"]: row for row in chosen if row["system"] == "seq2edge"}
    return [(ours[row["work"]], row) for row in chosen if row is not ours.get(row["work"]) and row["work"] in ours]


def _serve_ratio(pair: tuple[Row, Row]) -> str:
    ours, other = pair
    return (
        f"- {WORKS[ours['work']]}, 32 clients, beside {other['system']}: {ours['rate'] / other['rate']:.1f} times the "
        f"requests/s, {100 * ours['p95'] / other['p95']:.0f} % of the p95.\n"
    )


def soak(folder: Path) -> str:
    """The memory of the server before and after a long time at full load."""
    rows = [row for row in read("serve", folder) if row["work"] == "soak"]
    if not rows:
        return ""
    row = rows[0]
    memory = [f"{one / 1e6:.0f}" for one in row["memory"]]
    return (
        f"{row['seconds'] / 60:.0f} minutes at full load with 32 clients: {row['answers']:,} answers, "
        f"{row['wrong']} of them wrong; resident memory in MB after a first minute, and then at equal intervals: "
        f"{', '.join(memory)}.\n"
    )


def browser(folder: Path) -> str:
    """The browser's runtime beside transformers.js."""
    rows = read("browser", folder)
    if not rows:
        return ""
    body = [
        [
            row["system"],
            str(row["num_beams"]),
            f"{row['clock_ms']:.1f}",
            f"{row['processor_ms']:.1f}",
            f"{row['first_clock_s']:.1f} s",
            f"{row['bytes'] / 1e6:.1f} MB",
            f"{row['same_tokens']} of {row['sentences']}",
        ]
        for row in rows
    ]
    heads = ["system", "beams", "ms per sentence", "processor, ms", "first answer", "download", "tokens as in fp32"]
    greedy = {row["system"]: row["clock_ms"] for row in rows if row["num_beams"] == 1}
    pairs = (("seq2edge fp32", "transformers.js fp32"), ("seq2edge int8, widened", "transformers.js q8"))
    gains = (f"{ours} has {greedy[theirs] / greedy[ours]:.1f} times the speed of {theirs}" for ours, theirs in pairs)
    tried = f"{rows[0]['machine']['cpu']}, Chromium {rows[0]['chromium']}, one thread"
    return f"{table(heads, body)}\nGreedy, {', and '.join(gains)}. {tried}.\n"


BLOCKS: dict[str, Callable[[Path], str]] = {
    "precisions-in-readme": precisions_in_readme,
    "precisions": precisions,
    "default-quality": default_quality,
    "default-copies": default_copies,
    "default-samples": default_samples,
    "machine": machine,
    "speed": speed,
    "speed-in-readme": speed_in_readme,
    "speed-picture": speed_picture,
    "versus-base": versus("base"),
    "versus-opus": versus("opus"),
    "versus-default": versus("default"),
    "versus-bergamot": versus("bergamot"),
    "growth": growth,
    "memory": memory,
    "cold-start": cold_start,
    "limits": limits,
    "goals": goals,
    "nodes": nodes,
    "steps": steps,
    "fused-operators": fused_operators,
    "shortlist-gain": shortlist_gain,
    "shortlist-loss": shortlist_loss,
    "shortlist-products": shortlist_products,
    "serve": serve,
    "soak": soak,
    "browser": browser,
}


if __name__ == "__main__":
    main()
