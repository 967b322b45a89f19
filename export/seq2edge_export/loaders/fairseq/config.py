"""What a checkpoint of fairseq says of its model, and what of it ours cannot do."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from seq2edge.config.architecture import Activation
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.fairseq.files import plain_dict

Values = dict[str, Any]
NESTED = ("encoder", "decoder", "quant_noise")  # parts of the settings of newer models
ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
}
# Settings that are not off -> what they are, for people.
WORDS = {
    "adaptive_softmax_cutoff": "adaptive softmax",
    "adaptive_input": "adaptive inputs",
    "cross_self_attention": "self and cross attention in one",
    "no_cross_attention": "a decoder without cross attention",
    "char_inputs": "characters as inputs",
    "base_layers": "BASE layers",
    "scale_attn": "norms within attention (NormFormer)",
    "scale_fc": "norms within feed-forward layers (NormFormer)",
    "scale_heads": "scaled heads (NormFormer)",
    "scale_resids": "scaled residuals (NormFormer)",
    "encoder_xformers_att_config": "attention of xFormers",
    "decoder_xformers_att_config": "attention of xFormers",
    "quant_noise_pq": "quantization noise",
    "quant_noise_scalar": "quantization noise",
    "encoder_layers_to_keep": "layers that are left out (layers_to_keep)",
    "decoder_layers_to_keep": "layers that are left out (layers_to_keep)",
}
SAME = ("embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before")  # in encoder and decoder
OTHERS = ("transformer_lm", "transformer_ulm", "transformer_from_pretrained", "transformer_pointer", "transformer_mono")
TASK = "translation"


@dataclass(frozen=True, kw_only=True)
class FairseqModelSettings:
    """The settings of the ``transformer`` architecture that decide what it computes, with fairseq's defaults."""

    encoder_embed_dim: int = 512
    encoder_ffn_embed_dim: int = 2048
    encoder_layers: int = 6
    encoder_attention_heads: int = 8
    encoder_normalize_before: bool = False
    encoder_learned_pos: bool = False
    decoder_embed_dim: int = 512
    decoder_ffn_embed_dim: int = 2048
    decoder_layers: int = 6
    decoder_attention_heads: int = 8
    decoder_normalize_before: bool = False
    decoder_learned_pos: bool = False
    decoder_input_dim: int | None = None  # None: as wide as the decoder
    decoder_output_dim: int | None = None
    activation_fn: str = "relu"
    share_decoder_input_output_embed: bool = False
    share_all_embeddings: bool = False
    no_token_positional_embeddings: bool = False
    no_scale_embedding: bool = False
    layernorm_embedding: bool = False
    no_decoder_final_norm: bool = False
    max_source_positions: int = 1024
    max_target_positions: int = 1024

    @property
    def norm_first(self) -> bool:
        """Of both sides; if they differ, the model is refused."""
        return self.encoder_normalize_before


@dataclass(frozen=True)
class FairseqSettings:
    """All that is said, by the part of fairseq that it is for."""

    architecture: str
    model: FairseqModelSettings
    others: Values  # of the model
    task: Values
    bpe: Values
    tokenizer: Values
    generation: Values


def read_settings(content: Values, path: Path, problems: list[str]) -> FairseqSettings:
    """The settings, which are one namespace in older checkpoints (``args``) and parts in newer ones (``cfg``)."""
    try:
        args, cfg = plain_dict(content.get("args")), plain_dict(content.get("cfg"))
    except RecursionError:
        raise CheckpointError(f"{path} has settings within settings without end") from None
    if not args and not cfg:
        raise CheckpointError(f"{path} is no checkpoint of fairseq: it has neither args nor cfg")
    parts = _parts(args) if args else {key: plain_dict(value) for key, value in cfg.items()}
    values = _flat(parts.get("model", {}))
    return FairseqSettings(
        architecture=str(values.get("arch") or values.get("_name") or "transformer"),
        model=_read_model(values, problems),
        others=values,
        task=parts.get("task", {}),
        bpe=parts.get("bpe", {}),
        tokenizer=parts.get("tokenizer", {}),
        generation=parts.get("generation", {}),
    )


def unsupported(settings: FairseqSettings) -> list[str]:
    """Everything that our Transformer has not, each once."""
    model, task = settings.model, settings.task.get("_name") or TASK
    found = [WORDS[name] for name in WORDS if settings.others.get(name) not in (None, False, 0, "", [])]
    if not settings.architecture.startswith("transformer") or settings.architecture.startswith(OTHERS):
        found.append(f"the architecture {settings.architecture}")
    if task != TASK:
        found.append(f"the task {task}")
    if model.activation_fn not in ACTIVATIONS:
        found.append(f"the activation {model.activation_fn}")
    return list(dict.fromkeys([*found, *_differences(model)]))


def _differences(model: FairseqModelSettings) -> Iterator[str]:
    for name in SAME:
        encoder, decoder = (getattr(model, f"{side}_{name}") for side in ("encoder", "decoder"))
        if encoder != decoder:
            yield f"encoder and decoder with different {name} ({encoder} and {decoder})"
    for name in ("decoder_input_dim", "decoder_output_dim"):
        if getattr(model, name) not in (None, model.decoder_embed_dim):
            yield f"projections around the decoder ({name} is {getattr(model, name)})"
    if model.no_decoder_final_norm and model.decoder_normalize_before:
        yield "a final norm in the encoder alone (no_decoder_final_norm)"


def _parts(args: Values) -> dict[str, Values]:
    """The one namespace as if it had parts, each of which has its name elsewhere."""
    named = {part: {**args, "_name": args.get(part)} for part in ("task", "bpe", "tokenizer")}
    positions = args.get("max_positions")  # of both sides, in very old ones
    old = {} if positions is None else {"max_source_positions": positions, "max_target_positions": positions}
    return {"model": {**old, **args}, "generation": args, **named}


def _flat(values: Values) -> Values:
    """``encoder.layers`` as ``encoder_layers``."""
    inner = {
        f"{part}_{name}": value
        for part in NESTED
        if isinstance(values.get(part), dict)
        for name, value in values[part].items()
    }
    return {**values, **inner}


def _read_model(values: Values, problems: list[str]) -> FairseqModelSettings:
    hints = get_type_hints(FairseqModelSettings)
    found: Values = {}
    for field in fields(FairseqModelSettings):
        value = values.get(field.name)
        if value is None:
            continue
        kind = hints[field.name] if hints[field.name] in (bool, str) else int
        if type(value) is kind and (kind is not int or value > 0):
            found[field.name] = value
        else:
            problems.append(f"{field.name} is {value!r}")
    model = FairseqModelSettings(**found)
    inherited = {
        f"decoder_{name}": getattr(model, f"encoder_{name}")
        for name in ("embed_dim", "ffn_embed_dim")
        if values.get(f"decoder_{name}") is None
    }
    return replace(model, **inherited)
