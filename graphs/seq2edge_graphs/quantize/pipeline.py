"""Make a bundle in fewer bits from one in float32."""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from seq2edge import __version__
from seq2edge.bundle import tensor_names
from seq2edge.bundle.atomic_files import new_folder
from seq2edge.bundle.bundle import Bundle, Manifest, Precision, Quantization, load_bundle, vet_graphs
from seq2edge.config.parity import LIMITS, failed_limits
from seq2edge.errors import ParityError, UsageError
from seq2edge_graphs.bundle_writer import check_target, describe_files, write_manifest
from seq2edge_graphs.parity.measure import measure
from seq2edge_graphs.parity.sentences import encode_sentences
from seq2edge_graphs.quantize.apply import Grams, Plan, plan_precision
from seq2edge_graphs.quantize.auto_precision import PrecisionChoice, choose_precisions
from seq2edge_graphs.quantize.calibration import collect_grams
from seq2edge_graphs.quantize.config import QuantizationConfig
from seq2edge_graphs.quantize.rewrite import compare_bundles, load_graphs, tokenizer_of, write_graphs

TOOLS = ("onnx-ir", "numpy")
Say = Callable[[str], None]


def quantize_bundle(
    source: Path | str,
    target: Path | str,
    wish: QuantizationConfig,
    *,
    compare: bool = True,
    force: bool = False,
    say: Say = lambda _: None,
    explain: Callable[[PrecisionChoice], None] = lambda _: None,
) -> Bundle:
    """Write a bundle in fewer bits; it appears only when it is complete and keeps the limits of its precision."""
    source, target = Path(source), Path(target)
    original = load_bundle(source)
    _check_float(original)
    check_target(target, force=force, source=source)
    with new_folder(target) as folder:
        for name in original.manifest.files:
            shutil.copyfile(original.folder / name, folder / name)
        made = Bundle(folder, replace(original.manifest, parity=None))
        made = replace(made, manifest=quantize_in_place(made, wish, say, explain))
        if compare:
            say("comparing with float32")
            made = replace(made, manifest=_proven(made, original, wish))
        vet_graphs(folder, made.manifest)
        write_manifest(folder, made.manifest)
    return load_bundle(target)


def quantize_in_place(
    bundle: Bundle,
    wish: QuantizationConfig,
    say: Say = lambda _: None,
    explain: Callable[[PrecisionChoice], None] = lambda _: None,
) -> Manifest:
    """Rewrite the graphs of an unfinished bundle in float32 as is wished, and give the manifest that fits them."""
    if wish.precision == "fp32":
        return bundle.manifest
    grams = _grams(bundle, wish, say)
    plan, precision = _plan(bundle, wish, grams, say, explain)
    say(f"writing the weights in {precision}")
    write_graphs(bundle, plan, bundle.folder, grams)
    return replace(
        bundle.manifest,
        precision=precision,
        quantization=_described(plan, precision, wish),
        tools={**bundle.manifest.tools, "seq2edge": __version__, **{name: version(name) for name in TOOLS}},
        files=describe_files(bundle.folder),
    )


def _check_float(bundle: Bundle) -> None:
    found = bundle.manifest.precision
    if found != "fp32":
        raise UsageError(
            f"{bundle.folder} is in {found} already; quantize a bundle in fp32, or export the checkpoint again"
        )
    if tensor_names.SHORTLIST in bundle.manifest.files:
        raise UsageError(f"{bundle.folder} has a shortlist; quantize the bundle without, and add the shortlist then")


def _grams(bundle: Bundle, wish: QuantizationConfig, say: Say) -> Grams | None:
    if not wish.calibration:
        return None
    say("watching what the weights are multiplied with")
    return collect_grams(
        bundle, encode_sentences(wish.calibration, tokenizer_of(bundle), longest=bundle.manifest.max_positions)[0]
    )


def _plan(
    bundle: Bundle, wish: QuantizationConfig, grams: Grams | None, say: Say, explain: Callable[[PrecisionChoice], None]
) -> tuple[Plan, Precision]:
    if wish.precision != "auto":
        return plan_precision(load_graphs(bundle).values(), wish.precision, keep=wish.keep), wish.precision
    chosen = choose_precisions(bundle, wish, grams, say)
    explain(chosen)
    precisions = set(chosen.plan.values())
    return chosen.plan, precisions.pop() if len(precisions) == 1 else "mixed"


def _described(plan: Plan, precision: Precision, wish: QuantizationConfig) -> Quantization:
    others = {name: one for name, one in plan.items() if one != precision}
    return Quantization(weights=dict(Counter(plan.values())), others=others, calibration=len(wish.calibration))


def _proven(made: Bundle, original: Bundle, wish: QuantizationConfig) -> Manifest:
    parity, _ = measure(compare_bundles(made, original, wish.texts), wish.references)
    failures = failed_limits(parity, LIMITS[made.manifest.precision])
    if failures:
        raise ParityError(
            f"the bundle does not say what float32 says: {'; '.join(failures)}; nothing was written "
            "(--no-verify writes it all the same)"
        )
    return replace(made.manifest, parity=parity)
