"""Quantize a float32 bundle: calibrate, plan, rewrite the graphs, and verify the result."""

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
from seq2edge_graphs.parity.record import BATCH_SIZES
from seq2edge_graphs.quantize.apply import Plan, embedding_names, plan_precision
from seq2edge_graphs.quantize.auto_precision import PrecisionChoice, choose_precisions
from seq2edge_graphs.quantize.calibration import NO_CALIBRATION, Calibration, calibrate
from seq2edge_graphs.quantize.config import QuantizationConfig
from seq2edge_graphs.quantize.rewrite import compare_bundles, load_graphs, temporary_bundle, write_graphs

TOOLS = ("onnx-ir", "numpy")
MOST_TEXTS = 200  # to calibrate with; they are translated one by one
Progress = Callable[[str], None]
Explain = Callable[[PrecisionChoice], None]  # receives the choice of "auto"


def quantize_bundle(
    source: Path | str,
    target: Path | str,
    config: QuantizationConfig,
    *,
    compare: bool = True,
    force: bool = False,
    progress: Progress = lambda _: None,
    explain: Explain = lambda _: None,
) -> Bundle:
    """Write a quantized bundle; it appears only when it is complete and within the limits of its precision."""
    source, target = Path(source), Path(target)
    float_bundle = load_bundle(source)
    _check_fp32(float_bundle)
    check_target(target, force=force, source=source)
    with new_folder(target) as folder:
        for name in float_bundle.manifest.files:
            shutil.copyfile(float_bundle.folder / name, folder / name)
        bundle = Bundle(folder, replace(float_bundle.manifest, parity=None))
        bundle = replace(bundle, manifest=quantize_in_place(bundle, config, progress, explain, compare=compare))
        if compare:
            progress("comparing with float32")
            bundle = replace(bundle, manifest=_verify(bundle, float_bundle, config))
        vet_graphs(folder, bundle.manifest)
        write_manifest(folder, bundle.manifest)
    return load_bundle(target)


def quantize_in_place(
    bundle: Bundle,
    config: QuantizationConfig,
    progress: Progress = lambda _: None,
    explain: Explain = lambda _: None,
    *,
    compare: bool = True,
) -> Manifest:
    """Rewrite the graphs of an unfinished float32 bundle, and return its new manifest.

    Without ``compare``, int4 is not measured, and all weights get 4 bits.
    """
    if config.precision == "fp32":
        return bundle.manifest
    calibration = _calibrate(bundle, config, progress)
    plan, precision = _plan(bundle, config, calibration, progress, explain)
    if config.precision == "int4" and compare and not _is_within_limits(bundle, plan, calibration, config, progress):
        progress("keeping the embeddings in 8 bits, which 4 bits change most")
        plan = {**plan, **dict.fromkeys(embedding_names(load_graphs(bundle).values()), "int8")}
    progress(f"writing the weights in {precision}")
    write_graphs(bundle, plan, bundle.folder, calibration)
    return replace(
        bundle.manifest,
        precision=precision,
        quantization=_describe(plan, precision, calibration.sentences),
        tools={**bundle.manifest.tools, "seq2edge": __version__, **{name: version(name) for name in TOOLS}},
        files=describe_files(bundle.folder),
    )


def _check_fp32(bundle: Bundle) -> None:
    precision = bundle.manifest.precision
    if precision != "fp32":
        raise UsageError(
            f"{bundle.folder} is already in {precision}; quantize a bundle in fp32, or export the checkpoint again"
        )
    if tensor_names.SHORTLIST in bundle.manifest.files:
        raise UsageError(f"{bundle.folder} has a shortlist; quantize the bundle without it, then add the shortlist")


def _calibrate(bundle: Bundle, config: QuantizationConfig, progress: Progress) -> Calibration:
    """Calibrate what the precision needs; the graphs of other devices round without calibration.

    The texts to measure on are good for ranges as well, but not for 4 bits, which would look better on them.
    """
    grams, ranges = config.precision in ("int4", "auto"), config.precision in ("int8", "auto")
    if bundle.manifest.dialect == "portable" or not (grams or ranges):
        return NO_CALIBRATION
    progress("calibrating")
    texts = config.calibration or ([] if grams else (config.texts or [])[:MOST_TEXTS])
    return calibrate(bundle, texts, grams=grams, ranges=ranges)


def _plan(
    bundle: Bundle, config: QuantizationConfig, calibration: Calibration, progress: Progress, explain: Explain
) -> tuple[Plan, Precision]:
    if config.precision != "auto":
        return plan_precision(load_graphs(bundle).values(), config.precision, keep=config.keep), config.precision
    choice = choose_precisions(bundle, config, calibration, progress)
    explain(choice)
    precisions = set(choice.plan.values())
    return choice.plan, precisions.pop() if len(precisions) == 1 else "mixed"


def _is_within_limits(
    bundle: Bundle, plan: Plan, calibration: Calibration, config: QuantizationConfig, progress: Progress
) -> bool:
    """Return whether the next tokens are predicted closely enough for the limits of 4 bits."""
    progress("measuring the divergence of 4 bits")
    with temporary_bundle(bundle, plan, calibration) as trial:
        comparison = compare_bundles(trial, bundle, config.texts)
        logits = comparison.forced_difference(comparison.source_targets(), *BATCH_SIZES).logits
    limits = LIMITS["int4"]
    return logits.clear_agreement >= limits.clear_agreement and logits.mean_kl <= limits.mean_kl


def _describe(plan: Plan, precision: Precision, sentences: int) -> Quantization:
    others = {name: one for name, one in plan.items() if one != precision}
    return Quantization(weights=dict(Counter(plan.values())), others=others, calibration=sentences)


def _verify(bundle: Bundle, float_bundle: Bundle, config: QuantizationConfig) -> Manifest:
    parity, _ = measure(compare_bundles(bundle, float_bundle, config.texts), config.references)
    failures = failed_limits(parity, LIMITS[bundle.manifest.precision])
    if failures:
        raise ParityError(
            f"the outputs of the bundle differ too much from float32: {'; '.join(failures)}; nothing was written: "
            f"{config.advice}"
        )
    return replace(bundle.manifest, parity=parity)
