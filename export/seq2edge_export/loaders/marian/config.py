"""The settings inside a model file that decide what it computes, and which of them ours cannot follow.

YAML as Marian reads it: every scalar is a text until somebody wants a number.

The shape of the model that Marian's settings describe.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from seq2edge.config.architecture import Activation, Architecture, DecoderCell, Norm, Positions
from seq2edge.errors import CheckpointError

# Makes texts, lists and mappings of them, and nothing else: a word such as "yes" or "1e5" stays what it is.
LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
TRUE, FALSE = ("true", "yes", "on"), ("false", "no", "off")
Mapping = dict[str, Any]


def parse_yaml(text: str, where: str) -> Mapping:
    """The mapping that a text is, nothing if it is empty."""
    try:
        content = yaml.load(text, LOADER) or {}
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise CheckpointError(f"{where} is not YAML that can be read ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise CheckpointError(f"{where} should hold names and values, not {type(content).__name__}")
    return content


def read_yaml(path: Path) -> Mapping:
    try:
        return parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 ({error})") from None


class MarianSettings:
    """Values by name, each asked for as what it should be; what is something else is noted."""

    def __init__(self, content: Mapping, problems: list[str]) -> None:
        self.content, self.problems = content, problems

    def text(self, name: str, default: str = "") -> str:
        value = self.content.get(name, default)
        return value if isinstance(value, str) else self._noted(name, default)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.text(name, str(default)).lower()
        return value in TRUE if value in TRUE + FALSE else self._noted(name, default)

    def whole(self, name: str, default: int = 0) -> int:
        value = self.text(name, str(default))
        return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else self._noted(name, default)

    def number(self, name: str, default: float = 0.0) -> float:
        try:
            return float(self.text(name, str(default)))
        except ValueError:
            return self._noted(name, default)

    def texts(self, name: str) -> list[str]:
        """A list; one value alone is a list too."""
        value = self.content.get(name, [])
        values = value if isinstance(value, list) else [value] if value else []
        return values if all(isinstance(one, str) for one in values) else self._noted(name, [])

    def wholes(self, name: str) -> list[int]:
        values = self.texts(name)
        plain = all(value.isascii() and value.isdigit() and len(value) < 10 for value in values)
        return [int(value) for value in values] if plain else self._noted(name, [])

    def _noted(self, name: str, default: Any) -> Any:
        found = f"{name} = {str(self.content.get(name))[:60]!r}, which it cannot be"
        if found not in self.problems:
            self.problems.append(found)
        return default


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
class MarianConfig:
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


def read_config(content: Mapping) -> tuple[MarianConfig, list[str]]:
    """The settings, and everything about them that our Transformer cannot do."""
    problems: list[str] = []
    settings = MarianSettings(content, problems)
    sequence = _Sequence(settings, problems)
    problems += _unsupported(settings)
    for name in sorted(content.keys() - USED - IGNORED):
        problems.append(f"{name[:60]} = {str(content[name])[:60]!r}, which is not known")
    layers, sizes = _decoder_layers(settings, problems), _vocabularies(settings, problems)
    shared = settings.flag("tied-embeddings-src") or settings.flag("tied-embeddings-all")
    has_waves = not settings.flag("transformer-disable-position-embeddings")
    config = MarianConfig(
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


def _decoder_layers(settings: MarianSettings, problems: list[str]) -> Sequence[int]:
    """For each decoder layer the number of the one whose tensors it has."""
    depth, tied = settings.whole("dec-depth", 1), settings.wholes("transformer-tied-layers")
    if tied and (len(tied) != depth or any(not 1 <= layer <= place for place, layer in enumerate(tied, start=1))):
        problems.append(f"transformer-tied-layers = {tied} for {depth} layers")
    return tied or range(1, depth + 1)


def _vocabularies(settings: MarianSettings, problems: list[str]) -> tuple[int, int]:
    sizes = settings.wholes("dim-vocabs")
    if len(sizes) == 2:
        return sizes[0], sizes[1]
    problems.append(f"{len(sizes)} vocabularies (dim-vocabs) instead of a source and a target")
    return 0, 0


class _Sequence:
    """What is done around each sublayer, behind the embeddings and at the top; dropout is left out.

    d: dropout, a: add what went in, n: layer norm, r: RMS norm, h: highway.
    """

    def __init__(self, settings: MarianSettings, problems: list[str]) -> None:
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


def _unsupported(settings: MarianSettings) -> Iterator[str]:
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


def _recurrent(settings: MarianSettings) -> Iterator[str]:
    if (cell := settings.text("dec-cell", "gru")) != "ssru":
        yield f"a decoder cell of the type {cell!r}"
    if settings.flag("layer-normalization"):
        yield "layer normalization inside the decoder cell"
    if settings.flag("transformer-rnn-projection"):
        yield "a projection behind the decoder cell"


def _feed_forward(settings: MarianSettings) -> Iterator[str]:
    if (name := settings.text("transformer-ffn-activation", "swish")) not in ACTIVATIONS:
        yield f"the activation {name!r}"
    depth, width = settings.whole("transformer-ffn-depth", 2), settings.whole("transformer-dim-ffn", 2048)
    if depth != 2 or settings.whole("transformer-decoder-ffn-depth") not in (0, 2):
        yield "feed-forward of another depth than 2"
    if settings.whole("transformer-decoder-dim-ffn") not in (0, width):
        yield "encoder and decoder with different feed-forward widths"


def _version(settings: MarianSettings) -> tuple[int, int]:
    found = re.match(r"v(\d{1,4})\.(\d{1,4})\.", settings.text("version"))
    return (int(found[1]), int(found[2])) if found else (0, 0)


EPSILON = 1e-6  # of all norms
POSITIONS = 512  # Marian computes as many as are wanted; students have hardly seen so many


def shape_of(path: Path, config: MarianConfig) -> Architecture:
    try:
        return Architecture(
            source_vocabulary=config.vocabularies[0],
            target_vocabulary=config.vocabularies[1],
            width=config.width,
            heads=config.heads,
            encoder_layers=config.encoder_layers,
            decoder_layers=len(config.decoder_layers),
            decoder_cell=config.decoder_cell,
            feed_forward=config.feed_forward,
            activation=config.activation,
            norm=config.norm,
            norm_first=config.norm_first,
            final_norm=config.final_norm,
            positions=config.positions,
            max_positions=POSITIONS,
            joint_vocabulary=config.source_embedding == config.target_embedding,
            tied_output=config.tied_output,
            output_bias=config.output_bias,
            embedding_scale=1.0 if config.positions == "none" else None,
            embedding_norm=config.embedding_norm,
            zero_start=True,
            norm_epsilon=EPSILON,
        )
    except ValueError as error:
        raise CheckpointError(f"the settings in {path} do not fit together: {error}") from None
