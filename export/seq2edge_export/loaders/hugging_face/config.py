"""``config.json``: the settings that decide what a model computes.

What the classes of the families do without being told by ``config.json``.

What the files of a Hugging Face folder are called, and what kind of model it holds.

``generation_config.json``, or what an old ``config.json`` says about generating.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_type_hints

from seq2edge.config.architecture import Activation
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.schema import ClosedError, read_closed, short
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.state_dict import read_object

Table = Literal["learned", "halves", "stretched"]


@dataclass(frozen=True, kw_only=True)
class Traits:
    """A descendant of BART; ``table`` is the kind of its positions, see ``positions.py``."""

    norm_first: bool
    final_norm: bool
    embedding_norm: bool
    table: Table
    defaults: Mapping[str, Any]  # of its configuration class, where they are not those of ``HuggingFaceConfig``

    @property
    def fixed(self) -> dict[str, Any]:
        """Settings of old that its class has no choice of any more, and what it does."""
        return {
            "normalize_before": self.norm_first,
            "add_final_layer_norm": self.final_norm,
            "normalize_embedding": self.embedding_norm,
            "static_position_embeddings": self.table == "halves",
        }


CONFIG, GENERATION = "config.json", "generation_config.json"
TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
Settings = dict[str, Any]


def model_type(path: Path) -> str:
    """What ``config.json`` says the model is; nothing if the path is no folder of Hugging Face."""
    if not (path / CONFIG).is_file():
        return ""
    found = read_object(path / CONFIG).get("model_type")
    return found if isinstance(found, str) else ""


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
class HuggingFaceConfig:
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


def read_config(folder: Path, defaults: Settings) -> tuple[HuggingFaceConfig, Settings]:
    """The settings with a family's defaults: those that are used, and all of them."""
    content = defaults | read_object(folder / CONFIG)
    hints = get_type_hints(HuggingFaceConfig)
    problems: list[str] = []
    found: Settings = {}
    for field in fields(HuggingFaceConfig):
        value = content.get(field.name)
        if value is None and field.default is not MISSING:
            continue
        if _fits(value, hints[field.name]):
            found[field.name] = value
        else:
            problems.append(f"{field.name} is {short(value)}")
    if problems:
        raise CheckpointError(f"{folder / CONFIG} is not as transformers writes it: {'; '.join(problems)}")
    return HuggingFaceConfig(**found), content


def unsupported(config: HuggingFaceConfig, content: Settings, fixed: Settings) -> list[str]:
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


def config_value(config: HuggingFaceConfig, side: str, what: str) -> Any:
    return getattr(config, f"{side}_{what}")


def _fits(value: Any, hint: Any) -> bool:
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    if isinstance(value, list):
        return hint == int | list[int] and bool(value) and all(type(item) is int and item >= 0 for item in value)
    return isinstance(value, str) if hint is str else isinstance(value, int) and value >= 0


OURS = {field.name: field.default for field in fields(GenerationOptions) if field.name != "seed"}
WITHOUT_EFFECT = {  # on the tokens of a search that is ours
    *("_from_model_config", "transformers_version", "bos_token_id"),
    *("use_cache", "cache_implementation", "cache_config", "max_cache_len", "prefill_chunk_size", "low_memory"),
    *("output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate"),
    *("compile_config", "disable_compile", "continuous_batching_config", "trust_remote_code"),
    *("is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"),
    *("assistant_lookbehind", "target_lookbehind", "max_matching_ngram_size", "assistant_ensemble_weight"),
}
NEUTRAL: Settings = {  # options that our search has not, and the value with which they do nothing
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "typical_p": 1.0,
    "min_p": 0.0,
    "top_h": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "exponential_decay_length_penalty": None,
    "begin_suppress_tokens": None,
    "sequence_bias": None,
    "guidance_scale": 1.0,
    "penalty_alpha": 0.0,
    "watermarking_config": None,
    "constraints": None,
    "force_words_ids": None,
    "stop_strings": None,
    "max_time": None,
    "token_healing": False,
    "remove_invalid_values": False,
    "dola_layers": None,
    "prompt_lookup_num_tokens": None,
    "assistant_early_exit": None,
    "speculation_type": None,
    "use_mtp": False,
}


def read_generation(folder: Path, content: Settings, problems: list[str]) -> GenerationOptions | None:
    """The defaults of the search; ``content`` is ``config.json`` with the family's defaults, which is older."""
    file = GENERATION if (folder / GENERATION).exists() else CONFIG
    found = read_object(folder / GENERATION) if file == GENERATION else _old(content)
    found = {name: value for name, value in found.items() if value is not None}
    problems += [
        f"{name} = {short(value)} in {file}, which the search has not"
        for name, value in found.items()
        if name not in OURS and name not in WITHOUT_EFFECT and value not in (NEUTRAL.get(name), [], {})
    ]
    try:
        return read_closed(GenerationOptions, _complete(found, content), where=file)
    except ClosedError as error:
        problems.append(str(error))
        return None


def _old(content: Settings) -> Settings:
    """What transformers takes over from a ``config.json`` of old."""
    found = {name: value for name, value in content.items() if name in OURS or name in NEUTRAL}
    if content.get("force_bos_token_to_be_generated"):
        found["forced_bos_token_id"] = content.get("bos_token_id")
    return found


def _complete(found: Settings, content: Settings) -> Settings:
    """Our options alone, with the ids that transformers falls back on; what is empty is off."""
    options = {name: value for name, value in found.items() if name in OURS and not _is_empty(name, value)}
    eos = found.get("eos_token_id", content.get("eos_token_id"))
    options["eos_token_id"] = eos
    options["pad_token_id"] = found.get("pad_token_id", content.get("pad_token_id", eos))
    starts = (found.get("decoder_start_token_id"), content.get("decoder_start_token_id"), found.get("bos_token_id"))
    options["decoder_start_token_id"] = next((start for start in starts if start is not None), eos)
    return options


def _is_empty(name: str, value: Any) -> bool:
    return value == [] and OURS[name] is not MISSING
