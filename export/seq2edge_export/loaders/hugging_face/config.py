"""Read the JSON files and the model card of a Hugging Face folder, and find settings that are not supported."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_type_hints

from seq2edge.config.architecture import Activation, Architecture
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.schema import SchemaError, read_strict, short_repr
from seq2edge.errors import CheckpointError, listed
from seq2edge_export.loaders.state_dict import read_object

CONFIG, GENERATION, CARD = "config.json", "generation_config.json", "README.md"
TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
CARD_METADATA = re.compile(r"\A---\s*\n(.*?\n)---\s*\n", re.DOTALL)
Settings = dict[str, Any]
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
SUPPORTED = {field.name: field.default for field in fields(GenerationOptions) if field.name != "seed"}
WITHOUT_EFFECT = {  # options that do not change the output of the search
    *("_from_model_config", "transformers_version", "bos_token_id"),
    *("use_cache", "cache_implementation", "cache_config", "max_cache_len", "prefill_chunk_size", "low_memory"),
    *("output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate"),
    *("compile_config", "disable_compile", "continuous_batching_config", "trust_remote_code"),
    *("is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"),
    *("assistant_lookbehind", "target_lookbehind", "max_matching_ngram_size", "assistant_ensemble_weight"),
}
NEUTRAL: Settings = {  # unsupported options, and the value that switches them off
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


# learned: stored, from row 2 on (BART, mBART). halves: the formula of the Transformer paper with all sines before all
# cosines, which some files store nevertheless (Marian, Pegasus). stretched: the formula of tensor2tensor, whose longest
# wave is a little longer, counted from the padding id on (M2M100).
PositionTable = Literal["learned", "halves", "stretched"]


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What the class of a model derived from BART does without a setting in ``config.json``."""

    norm_first: bool
    final_norm: bool
    embedding_norm: bool
    positions: PositionTable
    defaults: Mapping[str, Any]  # of its configuration class, where they differ from ``HuggingFaceConfig``

    @property
    def fixed(self) -> dict[str, Any]:
        """Old settings that the class no longer reads, with the value it implements."""
        return {
            "normalize_before": self.norm_first,
            "add_final_layer_norm": self.final_norm,
            "normalize_embedding": self.embedding_norm,
            "static_position_embeddings": self.positions == "halves",
        }


@dataclass(frozen=True, kw_only=True)
class HuggingFaceConfig:
    """The keys of ``config.json`` of models derived from BART, with the defaults of BART."""

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
    share_encoder_decoder_embeddings: bool = True  # Marian only
    decoder_vocab_size: int | None = None  # Marian only

    @property
    def target_vocabulary(self) -> int:
        return self.decoder_vocab_size or self.vocab_size

    @property
    def eos(self) -> int:
        """The end token; of several, the first, which the tokenizer appends."""
        return self.eos_token_id[0] if isinstance(self.eos_token_id, list) else self.eos_token_id


def model_type(path: Path) -> str:
    """Return the model type in ``config.json``, empty if the path is not a Hugging Face folder."""
    if not (path / CONFIG).is_file():
        return ""
    name = read_object(path / CONFIG).get("model_type")
    return name if isinstance(name, str) else ""


def read_config(folder: Path, defaults: Settings) -> tuple[HuggingFaceConfig, Settings]:
    """Read ``config.json`` with the defaults of a family, and return the checked settings and all settings."""
    content = defaults | read_object(folder / CONFIG)
    hints = get_type_hints(HuggingFaceConfig)
    problems: list[str] = []
    valid: Settings = {}
    for field in fields(HuggingFaceConfig):
        value = content.get(field.name)
        if value is None and field.default is not MISSING:
            continue
        if _is_valid(value, hints[field.name]):
            valid[field.name] = value
        else:
            problems.append(f"{field.name} is {short_repr(value)}")
    if problems:
        raise CheckpointError(f"{folder / CONFIG} is not as transformers writes it: {listed(problems)}")
    return HuggingFaceConfig(**valid), content


def unsupported(config: HuggingFaceConfig, content: Settings, fixed: Settings) -> list[str]:
    """List the settings that are not supported; ``fixed`` are old settings that the model's class no longer reads."""
    problems = []
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = (getattr(config, f"{side}_{name}") for side in ("encoder", "decoder"))
        if encoder != decoder:
            problems.append(f"encoder and decoder with different {name} ({encoder} and {decoder})")
    if config.activation_function not in ACTIVATIONS:
        problems.append(f"the activation {config.activation_function}")
    problems += unsupported_quantization(content)
    problems += [
        f"{name} = {content[name]!r}, where this family has {value!r}"
        for name, value in fixed.items()
        if content.get(name) not in (None, value)
    ]
    return problems


def unsupported_quantization(content: Settings) -> list[str]:
    is_quantized = content.get("quantization_config") is not None
    return ["weights that are already quantized (quantization_config)"] if is_quantized else []


def _is_valid(value: Any, hint: Any) -> bool:
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    if isinstance(value, list):
        return hint == int | list[int] and bool(value) and all(type(item) is int and item >= 0 for item in value)
    return isinstance(value, str) if hint is str else isinstance(value, int) and value >= 0


def architecture_of(
    folder: Path, config: HuggingFaceConfig, traits: Traits, *, joint: bool, tied: bool, output_bias: bool
) -> Architecture:
    """Return the architecture that the settings describe, without positions."""
    try:
        return Architecture(
            source_vocabulary=config.vocab_size,
            target_vocabulary=config.target_vocabulary,
            width=config.d_model,
            heads=config.encoder_attention_heads,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            feed_forward=config.encoder_ffn_dim,
            activation=ACTIVATIONS[config.activation_function],
            norm_first=traits.norm_first,
            final_norm=traits.final_norm,
            embedding_norm=traits.embedding_norm,
            positions="none",
            max_positions=config.max_position_embeddings,
            joint_vocabulary=joint,
            tied_output=tied,
            output_bias=output_bias,
            embedding_scale=None if config.scale_embedding else 1.0,
        )
    except ValueError as error:
        raise CheckpointError(f"the settings in {folder} contradict each other: {error}") from None


def read_generation(folder: Path, content: Settings, problems: list[str]) -> GenerationOptions | None:
    """Read ``generation_config.json``, or the search options in an old ``config.json`` (``content``)."""
    file = GENERATION if (folder / GENERATION).exists() else CONFIG
    options = read_object(folder / GENERATION) if file == GENERATION else _legacy_options(content)
    options = {name: value for name, value in options.items() if value is not None}
    problems += [
        f"{name} = {short_repr(value)} in {file}, which the search does not support"
        for name, value in options.items()
        if name not in SUPPORTED and name not in WITHOUT_EFFECT and value not in (NEUTRAL.get(name), [], {})
    ]
    try:
        return read_strict(GenerationOptions, _complete(options, content), where=file)
    except SchemaError as error:
        problems.append(str(error))
        return None


def _legacy_options(content: Settings) -> Settings:
    """Return the options that transformers reads from an old ``config.json``."""
    options = {name: value for name, value in content.items() if name in SUPPORTED or name in NEUTRAL}
    if content.get("force_bos_token_to_be_generated"):
        options["forced_bos_token_id"] = content.get("bos_token_id")
    return options


def _complete(options: Settings, content: Settings) -> Settings:
    """Return the supported options with the ids that transformers falls back on; empty lists are switched off."""
    complete = {name: value for name, value in options.items() if name in SUPPORTED and not _is_empty(name, value)}
    eos = options.get("eos_token_id", content.get("eos_token_id"))
    complete["eos_token_id"] = eos
    complete["pad_token_id"] = options.get("pad_token_id", content.get("pad_token_id", eos))
    starts = (options.get("decoder_start_token_id"), content.get("decoder_start_token_id"), options.get("bos_token_id"))
    complete["decoder_start_token_id"] = next((start for start in starts if start is not None), eos)
    return complete


def _is_empty(name: str, value: Any) -> bool:
    return value == [] and SUPPORTED[name] is not MISSING


def read_license(folder: Path) -> str:
    """Return the licence in the metadata of the model card, if any."""
    path = folder / CARD
    metadata = CARD_METADATA.match(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else None
    license = re.search(r"^license:\s*[\"']?([\w.\-]+)", metadata[1], re.MULTILINE) if metadata else None
    return license[1] if license else ""


def attribution(content: Settings) -> str:
    """Return the name under which the model was published, if it is known."""
    name = content.get("_name_or_path")
    return name if isinstance(name, str) and re.fullmatch(r"[\w.\-]+/[\w.\-]+", name) else ""
