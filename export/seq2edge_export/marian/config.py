"""The settings inside a model file that decide what it computes, and which of them ours cannot follow; needs PyYAML."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seq2edge.architecture import Activation, DecoderCell, Norm, Positions
from seq2edge_export.marian.settings import Mapping, Settings

ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "swish": "silu", "gelu": "gelu_sigmoid"}
NORMS: dict[str, Norm] = {"n": "layer", "r": "rms"}
NORMED_KEYS = (1, 11)  # the first version whose norm before an attention also reaches keys and values
SWITCHES = {  # what is refused if it is on
    "right-left": "outputs from right to left",
    "transformer-pool": "pooling instead of cross attention",
    "ulr": "universal language representations",
}
USED = {
    *("type", "version", "dim-vocabs", "dim-emb", "enc-depth", "dec-depth", "dec-cell", "layer-normalization"),
    *("tied-embeddings", "tied-embeddings-src", "tied-embeddings-all", "output-omit-bias", "right-left", "input-types"),
    *("transformer-heads", "transformer-no-projection", "transformer-rnn-projection", "transformer-pool"),
    *("transformer-dim-ffn", "transformer-decoder-dim-ffn", "transformer-ffn-depth", "transformer-decoder-ffn-depth"),
    *("transformer-ffn-activation", "transformer-decoder-autoreg", "transformer-tied-layers", "transformer-preprocess"),
    *("transformer-postprocess", "transformer-postprocess-emb", "transformer-postprocess-top", "transformer-no-bias"),
    *("transformer-no-affine", "transformer-disable-position-embeddings", "transformer-attention-mask"),
    *("ulr", "lemma-dim-emb", "lemma-dependency", "factors-combine"),
}
# Of recurrent models, of training, or of what is refused anyway if it is switched on. Of trained positions, the tensor
# tells: Marian writes one of these even where it computes waves.
IGNORED = {
    *("dim-rnn", "enc-cell", "enc-cell-depth", "enc-type", "dec-cell-base-depth", "dec-cell-high-depth", "skip"),
    *("bert-train-type-embeddings", "bert-type-vocab-size", "special-vocab", "separator-symbol", "input-reorder"),
    *("transformer-aan-activation", "transformer-aan-depth", "transformer-aan-nogate", "transformer-dim-aan"),
    *("transformer-guided-alignment-layer", "transformer-depth-scaling", "transformer-train-position-embeddings"),
    *("transformer-train-positions", "transformer-alibi-shift", "transformer-alibi-trainable", "factors-dim-emb"),
    *("ulr-dim-emb", "ulr-trainable-transformation", "input-join-fields", "original-type"),
}


@dataclass(frozen=True)
class Config:
    """What is left when everything fits."""

    vocabularies: tuple[int, int]
    width: int
    heads: int
    encoder_layers: int
    decoder_layers: Sequence[int]  # whose tensors each has: 1, 2, ... unless some are tied
    decoder_cell: DecoderCell
    feed_forward: int
    activation: Activation
    norm: Norm
    norm_first: bool
    final_norm: bool
    embedding_norm: bool
    positions: Positions
    source_embedding: str
    target_embedding: str
    tied_output: bool
    output_bias: bool
    projected: bool  # attention ends in a linear layer
    bias: bool
    affine: bool  # norms have a scale and a bias


def read_config(content: Mapping) -> tuple[Config, list[str]]:
    """The settings, and everything about them that our Transformer cannot do."""
    problems: list[str] = []
    settings = Settings(content, problems)
    sequence = _Sequence(settings, problems)
    problems += _unsupported(settings)
    for name in sorted(content.keys() - USED - IGNORED):
        problems.append(f"{name[:60]} = {str(content[name])[:60]!r}, which is not known")
    layers, sizes = _decoder_layers(settings, problems), _vocabularies(settings, problems)
    shared = settings.flag("tied-embeddings-src") or settings.flag("tied-embeddings-all")
    has_waves = not settings.flag("transformer-disable-position-embeddings")
    config = Config(
        vocabularies=sizes,
        width=settings.whole("dim-emb", 512),
        heads=settings.whole("transformer-heads", 8),
        encoder_layers=settings.whole("enc-depth", 1),
        decoder_layers=layers,
        decoder_cell="ssru" if settings.text("transformer-decoder-autoreg", "self-attention") == "rnn" else "attention",
        feed_forward=settings.whole("transformer-dim-ffn", 2048),
        activation=ACTIVATIONS.get(settings.text("transformer-ffn-activation", "swish"), "relu"),
        norm=sequence.norm,
        norm_first=sequence.norm_first,
        final_norm=sequence.final_norm,
        embedding_norm=sequence.embedding_norm,
        positions="sinusoidal_stretched" if has_waves else "none",
        source_embedding="Wemb" if shared else "encoder_Wemb",
        target_embedding="Wemb" if shared else "decoder_Wemb",
        tied_output=settings.flag("tied-embeddings") or settings.flag("tied-embeddings-all"),
        output_bias=not settings.flag("output-omit-bias"),
        projected=not settings.flag("transformer-no-projection"),
        bias=not settings.flag("transformer-no-bias"),
        affine=not settings.flag("transformer-no-affine"),
    )
    return config, list(dict.fromkeys(problems))


def _decoder_layers(settings: Settings, problems: list[str]) -> Sequence[int]:
    """For each decoder layer the number of the one whose tensors it has."""
    depth, tied = settings.whole("dec-depth", 1), settings.wholes("transformer-tied-layers")
    if tied and (len(tied) != depth or any(not 1 <= layer <= place for place, layer in enumerate(tied, start=1))):
        problems.append(f"transformer-tied-layers = {tied} for {depth} layers")
    return tied or range(1, depth + 1)


def _vocabularies(settings: Settings, problems: list[str]) -> tuple[int, int]:
    sizes = settings.wholes("dim-vocabs")
    if len(sizes) == 2:
        return sizes[0], sizes[1]
    problems.append(f"{len(sizes)} vocabularies (dim-vocabs) instead of a source and a target")
    return 0, 0


class _Sequence:
    """What is done around each sublayer, behind the embeddings and at the top; dropout is left out.

    d: dropout, a: add what went in, n: layer norm, r: RMS norm, h: highway.
    """

    def __init__(self, settings: Settings, problems: list[str]) -> None:
        before, after, embedding, top = (
            settings.text(f"transformer-{name}", default).replace("d", "")
            for name, default in (
                ("preprocess", ""),
                ("postprocess", "dan"),
                ("postprocess-emb", "d"),
                ("postprocess-top", ""),
            )
        )
        kinds = set(before + after + embedding + top) - {"a"}
        self.norm: Norm = "rms" if "r" in kinds else "layer"
        self.norm_first = before in NORMS
        self.final_norm, self.embedding_norm = top in NORMS, embedding in NORMS
        if (before, after) not in [("", "an"), ("", "ar"), ("n", "a"), ("r", "a")]:
            problems.append(f"sublayers with transformer-preprocess {before!r} and transformer-postprocess {after!r}")
        if embedding not in ("", *NORMS) or top not in ("", *NORMS):
            problems.append(f"transformer-postprocess-emb {embedding!r} and transformer-postprocess-top {top!r}")
        if len(kinds & NORMS.keys()) > 1:
            problems.append("layer norms and RMS norms in one model")


def _unsupported(settings: Settings) -> Iterator[str]:
    """What is switched on or chosen, in words."""
    if (kind := settings.text("type", "amun")) != "transformer":
        yield f"a model of the type {kind!r}"
    autoregression = settings.text("transformer-decoder-autoreg", "self-attention")
    if autoregression not in ("self-attention", "rnn"):
        yield f"transformer-decoder-autoreg {autoregression!r}"
    if autoregression == "rnn":
        yield from _recurrent(settings)
    yield from _feed_forward(settings)
    if settings.text("transformer-preprocess").strip("d") and _version(settings) < NORMED_KEYS:
        yield (
            "norms before the sublayers from Marian before 1.11, which left keys and values as they were "
            f"(version {settings.text('version')!r})"
        )
    for name, words in SWITCHES.items():
        if settings.flag(name):
            yield words
    if settings.text("transformer-attention-mask", "default") != "default":
        yield "ALiBi positions"
    if settings.text("lemma-dim-emb", "0") != "0" or settings.text("lemma-dependency"):
        yield "factored vocabularies"
    if set(settings.texts("input-types")) - {"sequence"}:
        yield "inputs other than text (input-types)"


def _recurrent(settings: Settings) -> Iterator[str]:
    if (cell := settings.text("dec-cell", "gru")) != "ssru":
        yield f"a decoder cell of the type {cell!r}"
    if settings.flag("layer-normalization"):
        yield "layer normalization inside the decoder cell"
    if settings.flag("transformer-rnn-projection"):
        yield "a projection behind the decoder cell"


def _feed_forward(settings: Settings) -> Iterator[str]:
    if (name := settings.text("transformer-ffn-activation", "swish")) not in ACTIVATIONS:
        yield f"the activation {name!r}"
    depth, width = settings.whole("transformer-ffn-depth", 2), settings.whole("transformer-dim-ffn", 2048)
    if depth != 2 or settings.whole("transformer-decoder-ffn-depth") not in (0, 2):
        yield "feed-forward of another depth than 2"
    if settings.whole("transformer-decoder-dim-ffn") not in (0, width):
        yield "encoder and decoder with different feed-forward widths"


def _version(settings: Settings) -> tuple[int, int]:
    found = re.match(r"v(\d{1,4})\.(\d{1,4})\.", settings.text("version"))
    return (int(found[1]), int(found[2])) if found else (0, 0)
