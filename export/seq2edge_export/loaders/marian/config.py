"""Read the settings inside a Marian model file and find those that are not supported."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from seq2edge.config.architecture import Activation, Architecture, DecoderCell, Norm, Positions
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.tokenizer import SpecialTokens
from seq2edge.errors import CheckpointError

Mapping = dict[str, Any]
# Like Marian, this loader keeps every scalar as a string: "yes" and "1e5" are converted where they are used.
LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
TRUE, FALSE = ("true", "yes", "on"), ("false", "no", "off")
ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "swish": "silu", "gelu": "gelu_sigmoid"}
NORMS: dict[str, Norm] = {"n": "layer", "r": "rms"}
EPSILON = 1e-6  # of all norms
POSITIONS = 512  # Marian computes as many as needed; student models have rarely seen more
MAX_NEW_TOKENS = 256  # Marian's own limit depends on the source
BEAMS, NORMALIZE = 1, 1.0  # defaults for student models
NORMED_KEYS = (1, 11)  # the first version that also normalizes keys and values before attention
SWITCHES = {  # unsupported if they are on
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
# Settings of recurrent models, of training, or of features that are refused by their main switch. Trained positions are
# recognized by their tensor, since Marian also writes their setting where it computes sinusoids.
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
    """The settings that decide what the model computes."""

    vocabularies: tuple[int, int]
    width: int
    heads: int
    encoder_layers: int
    decoder_layers: Sequence[int]  # the layer that stores the tensors of each: 1, 2, ... unless some are tied
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
    projected: bool  # attention has an output projection
    bias: bool
    affine: bool  # norms have a scale and a bias


class MarianSettings:
    """Typed access to settings; values that cannot be converted are added to ``problems``."""

    def __init__(self, content: Mapping, problems: list[str]) -> None:
        self.content, self.problems = content, problems

    def text(self, name: str, default: str = "") -> str:
        value = self.content.get(name, default)
        return value if isinstance(value, str) else self._invalid(name, default)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.text(name, str(default)).lower()
        return value in TRUE if value in TRUE + FALSE else self._invalid(name, default)

    def integer(self, name: str, default: int = 0) -> int:
        value = self.text(name, str(default))
        return int(value) if _is_integer(value) else self._invalid(name, default)

    def number(self, name: str, default: float = 0.0) -> float:
        try:
            return float(self.text(name, str(default)))
        except ValueError:
            return self._invalid(name, default)

    def texts(self, name: str) -> list[str]:
        """Return a list; a single value is a list of one."""
        value = self.content.get(name, [])
        values = value if isinstance(value, list) else [value] if value else []
        return values if all(isinstance(item, str) for item in values) else self._invalid(name, [])

    def integers(self, name: str) -> list[int]:
        values = self.texts(name)
        return [int(value) for value in values] if all(map(_is_integer, values)) else self._invalid(name, [])

    def _invalid(self, name: str, default: Any) -> Any:
        problem = f"{name} = {str(self.content.get(name))[:60]!r}, which is invalid"
        if problem not in self.problems:
            self.problems.append(problem)
        return default


def _is_integer(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def read_config(content: Mapping) -> tuple[MarianConfig, list[str]]:
    """Return the settings and a list of everything that is not supported."""
    problems: list[str] = []
    settings = MarianSettings(content, problems)
    sequence = _Sequence(settings, problems)
    problems += _unsupported(settings)
    for name in sorted(content.keys() - USED - IGNORED):
        problems.append(f"{name[:60]} = {str(content[name])[:60]!r}, which is an unknown setting")
    layers, sizes = _decoder_layers(settings, problems), _vocabularies(settings, problems)
    shared = settings.flag("tied-embeddings-src") or settings.flag("tied-embeddings-all")
    has_positions = not settings.flag("transformer-disable-position-embeddings")
    config = MarianConfig(
        vocabularies=sizes,
        width=settings.integer("dim-emb", 512),
        heads=settings.integer("transformer-heads", 8),
        encoder_layers=settings.integer("enc-depth", 1),
        decoder_layers=layers,
        decoder_cell="ssru" if settings.text("transformer-decoder-autoreg", "self-attention") == "rnn" else "attention",
        feed_forward=settings.integer("transformer-dim-ffn", 2048),
        activation=ACTIVATIONS.get(settings.text("transformer-ffn-activation", "swish"), "relu"),
        norm=sequence.norm,
        norm_first=sequence.norm_first,
        final_norm=sequence.final_norm,
        embedding_norm=sequence.embedding_norm,
        positions="sinusoidal_stretched" if has_positions else "none",
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
    """Return for each decoder layer the number of the one that stores its tensors."""
    depth, tied = settings.integer("dec-depth", 1), settings.integers("transformer-tied-layers")
    if tied and (len(tied) != depth or any(not 1 <= layer <= number for number, layer in enumerate(tied, start=1))):
        problems.append(f"transformer-tied-layers = {tied} for {depth} layers")
    return tied or range(1, depth + 1)


def _vocabularies(settings: MarianSettings, problems: list[str]) -> tuple[int, int]:
    sizes = settings.integers("dim-vocabs")
    if len(sizes) == 2:
        return sizes[0], sizes[1]
    problems.append(f"{len(sizes)} vocabularies (dim-vocabs) instead of a source and a target")
    return 0, 0


class _Sequence:
    """The operations around each sublayer, after the embeddings and at the top, without dropout.

    d: dropout, a: residual connection, n: layer norm, r: RMS norm, h: highway.
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
    """Describe the unsupported features that are switched on."""
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
            "norms before the sublayers from Marian before 1.11, which did not normalize keys and values "
            f"(version {settings.text('version')!r})"
        )
    for name, description in SWITCHES.items():
        if settings.flag(name):
            yield description
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
    depth, width = settings.integer("transformer-ffn-depth", 2), settings.integer("transformer-dim-ffn", 2048)
    if depth != 2 or settings.integer("transformer-decoder-ffn-depth") not in (0, 2):
        yield "feed-forward of another depth than 2"
    if settings.integer("transformer-decoder-dim-ffn") not in (0, width):
        yield "encoder and decoder with different feed-forward widths"


def _version(settings: MarianSettings) -> tuple[int, int]:
    found = re.match(r"v(\d{1,4})\.(\d{1,4})\.", settings.text("version"))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def architecture_of(path: Path, config: MarianConfig) -> Architecture:
    """Return the architecture that the settings describe."""
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
        raise CheckpointError(f"the settings in {path} contradict each other: {error}") from None


def read_generation(search: Mapping, tokens: SpecialTokens) -> GenerationOptions:
    """Return the search options of ``decoder.yml``."""
    settings = MarianSettings(search, [])
    return GenerationOptions(
        decoder_start_token_id=tokens.bos,
        eos_token_id=tokens.eos,
        pad_token_id=tokens.pad,
        num_beams=settings.integer("beam-size", BEAMS),
        length_penalty=settings.number("normalize", 0.0 if "beam-size" in search else NORMALIZE),
        max_new_tokens=MAX_NEW_TOKENS,
        suppress_tokens=None if settings.flag("allow-unk") else (tokens.unk,),
    )


def unsupported_search(search: Mapping) -> list[str]:
    """List the options of ``decoder.yml`` that are not supported."""
    problems: list[str] = []
    settings = MarianSettings(search, problems)
    if settings.number("word-penalty") and settings.integer("beam-size", BEAMS) > 1:
        problems.append("a word penalty in the search (set word-penalty to 0 to do without)")
    if settings.integer("beam-size", BEAMS) < 1:
        problems.append("beam-size 0")
    settings.number("normalize")  # only to check that it is a number
    return problems


def parse_yaml(text: str, where: str) -> Mapping:
    """Parse a YAML mapping; an empty text is an empty mapping."""
    try:
        content = yaml.load(text, LOADER) or {}
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise CheckpointError(f"{where} is not valid YAML ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise CheckpointError(f"{where} should hold a mapping of names to values, not {type(content).__name__}")
    return content


def read_yaml(path: Path) -> Mapping:
    try:
        return parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 ({error})") from None
