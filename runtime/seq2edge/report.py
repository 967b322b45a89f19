"""What ``seq2edge inspect`` says of a bundle; needs nothing."""

from seq2edge.architecture import (
    Architecture,
    cache_bytes,
    cost_per_source_token,
    cost_per_target_token,
)
from seq2edge.bundle import Bundle
from seq2edge.parity import Parity

Rows = list[tuple[str, str]]


def describe_bundle(bundle: Bundle, *, source_length: int, target_length: int) -> Rows:
    """Name and value of everything worth knowing."""
    manifest = bundle.manifest
    size, shape = bundle.size, Rows()
    if manifest.architecture is not None:
        shape = describe_shape(manifest.architecture, source_length=source_length, target_length=target_length)
    return [
        ("bundle", str(bundle.folder)),
        ("family", manifest.family),
        ("languages", f"{manifest.languages.source or '?'} → {manifest.languages.target or '?'}"),
        *shape,
        ("parameters", f"{manifest.parameters:,}"),
        ("precision", manifest.precision),
        ("dialect", f"{manifest.dialect}, opset {manifest.opset}"),
        ("size", f"{size / 1e6:.2f} MB, {size / manifest.parameters:.3f} bytes a parameter"),
        ("licence", manifest.rights.license or "not stated"),
        ("attribution", manifest.rights.attribution or "not stated"),
        ("parity", _parity(manifest.parity)),
        ("made with", ", ".join(f"{name} {version}" for name, version in manifest.tools.items())),
    ]


def describe_shape(shape: Architecture, *, source_length: int, target_length: int) -> Rows:
    """What the model's shape says about it, and what a token costs."""
    source_cost = cost_per_source_token(shape, source_length=source_length)
    target_cost = cost_per_target_token(shape, source_length=source_length, target_length=target_length)
    cache = cache_bytes(shape, source_length=source_length, target_length=target_length)
    lengths = f"at {source_length} source and {target_length} target tokens"
    return [
        ("layers", f"{shape.encoder_layers} encoder, {shape.decoder_layers} decoder"),
        ("width", f"{shape.width} in {shape.heads} heads, feed-forward {_feed_forward(shape)}"),
        ("norm", "before each sublayer" if shape.norm_first else "after each sublayer"),
        ("positions", f"{shape.positions}, at most {shape.max_positions}"),
        ("vocabulary", _vocabulary(shape)),
        ("cost of a source token", f"{source_cost / 1e6:.2f} million operations {lengths}"),
        ("cost of a target token", f"{target_cost / 1e6:.2f} million operations {lengths}"),
        ("cache of a sentence", f"{cache / 1e6:.3f} MB {lengths}"),
    ]


def _parity(parity: Parity | None) -> str:
    if parity is None:
        return "not compared with the original"
    return (
        f"greedy {parity.greedy_equal:.1%} and beam {parity.beam_equal:.1%} of {parity.sentences} sentences equal to "
        f"the original, logits within {parity.logit_difference:.1e}"
    )


def _feed_forward(shape: Architecture) -> str:
    return f"{shape.feed_forward} ({'gated ' if shape.gated else ''}{shape.activation})"


def _vocabulary(shape: Architecture) -> str:
    if shape.joint_vocabulary:
        return f"{shape.target_vocabulary:,} joint"
    return f"{shape.source_vocabulary:,} source, {shape.target_vocabulary:,} target"
