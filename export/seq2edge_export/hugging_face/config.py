"""``config.json``: the settings that decide what a model computes; needs nothing."""

from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from seq2edge.architecture import Activation
from seq2edge.closed import short
from seq2edge.errors import CheckpointError
from seq2edge_export.hugging_face.folder import CONFIG, Settings
from seq2edge_export.json_object import read_object

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "silu": "silu",
    "swish": "silu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "gelu_sigmoid",
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """The keys of ``config.json`` that all of BART's descendants have; defaults are BART's own."""

    vocab_size: int
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    max_position_embeddings: int = 1024
    activation_function: str = "gelu"
    scale_embedding: bool = False
    tie_word_embeddings: bool = True
    pad_token_id: int
    eos_token_id: int | list[int]
    share_encoder_decoder_embeddings: bool = True  # Marian's
    decoder_vocab_size: int | None = None  # Marian's

    @property
    def target_vocabulary(self) -> int:
        return self.decoder_vocab_size or self.vocab_size

    @property
    def eos(self) -> int:
        """The end mark; of several, the first, which the tokenizer writes."""
        return self.eos_token_id[0] if isinstance(self.eos_token_id, list) else self.eos_token_id


def read_config(folder: Path, defaults: Settings) -> tuple[Config, Settings]:
    """The settings with a family's defaults: those that are used, and all of them."""
    content = defaults | read_object(folder / CONFIG)
    hints = get_type_hints(Config)
    problems: list[str] = []
    found: Settings = {}
    for field in fields(Config):
        value = content.get(field.name)
        if value is None and field.default is not MISSING:
            continue
        if _fits(value, hints[field.name]):
            found[field.name] = value
        else:
            problems.append(f"{field.name} is {short(value)}")
    if problems:
        raise CheckpointError(f"{folder / CONFIG} is not as transformers writes it: {'; '.join(problems)}")
    return Config(**found), content


def unsupported(config: Config, content: Settings, fixed: Settings) -> list[str]:
    """What our Transformer has not; ``fixed`` are old settings that the family's code does not look at any more."""
    found = [
        f"encoder and decoder with different {what} ({config_value(config, 'encoder', what)} and "
        f"{config_value(config, 'decoder', what)})"
        for what in ("attention_heads", "ffn_dim")
        if config_value(config, "encoder", what) != config_value(config, "decoder", what)
    ]
    if config.activation_function not in ACTIVATIONS:
        found.append(f"the activation {config.activation_function}")
    found += quantized(content)
    found += [
        f"{name} = {content[name]!r}, where this family has {value!r}"
        for name, value in fixed.items()
        if content.get(name) not in (None, value)
    ]
    return found


def quantized(content: Settings) -> list[str]:
    """A reason to refuse, or none."""
    return (
        ["weights that are already quantized (quantization_config)"]
        if content.get("quantization_config") is not None
        else []
    )


def config_value(config: Config, side: str, what: str) -> Any:
    return getattr(config, f"{side}_{what}")


def _fits(value: Any, hint: Any) -> bool:
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    if isinstance(value, list):
        return hint == int | list[int] and bool(value) and all(type(item) is int and item >= 0 for item in value)
    return isinstance(value, str) if hint is str else isinstance(value, int) and value >= 0
