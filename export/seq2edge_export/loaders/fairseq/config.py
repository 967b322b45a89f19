"""Read the settings in a fairseq checkpoint and find those that are not supported."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from seq2edge.config.architecture import Activation, Architecture
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.tokenizer import SpecialTokens
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.fairseq.files import plain_dict
from seq2edge_export.loaders.hugging_face.weights import Embeddings

Values = dict[str, Any]
NESTED = ("encoder", "decoder", "quant_noise")  # sections of newer settings
ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
}
# setting that is on -> description of the unsupported feature
UNSUPPORTED = {
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
SAME_IN_BOTH = ("embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before")  # encoder and decoder
OTHER_ARCHITECTURES = (
    "transformer_lm",
    "transformer_ulm",
    "transformer_from_pretrained",
    "transformer_pointer",
    "transformer_mono",
)
TASK = "translation"
TOKENS = SpecialTokens(bos=0, pad=1, eos=2, unk=3)
BEAM, MAX_LEN_A, MAX_LEN_B, MIN_LEN = 5, 0.0, 200, 1  # defaults of fairseq-generate
# search setting -> values that switch it off, and description of the unsupported feature
UNSUPPORTED_SEARCH: dict[str, tuple[tuple[Any, ...], str]] = {
    "sampling": ((None, False), "sampling"),
    "diverse_beam_groups": ((None, -1, 0, 1), "groups of beams"),
    "diversity_rate": ((None, -1.0, 0.0), "diverse siblings"),
    "constraints": ((None,), "constraints"),
    "lm_path": ((None,), "a language model in the search"),
    "unkpen": ((None, 0.0), "a penalty for unknown words"),
    "match_source_len": ((None, False), "outputs as long as their source"),
    "temperature": ((None, 1.0), "a temperature"),
    "prefix_size": ((None, 0), "a prefix from the target"),
}


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
    decoder_input_dim: int | None = None  # None: the width of the decoder
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
        """The setting of both sides, since a model is refused if they differ."""
        return self.encoder_normalize_before


@dataclass(frozen=True)
class FairseqSettings:
    """All settings by section."""

    architecture: str
    model: FairseqModelSettings
    others: Values  # all settings of the model, unchecked
    task: Values
    bpe: Values
    tokenizer: Values
    generation: Values


def read_settings(content: Values, path: Path, problems: list[str]) -> FairseqSettings:
    """Read the settings: one namespace in older checkpoints (``args``), sections in newer ones (``cfg``)."""
    try:
        args, cfg = plain_dict(content.get("args")), plain_dict(content.get("cfg"))
    except RecursionError:
        raise CheckpointError(f"{path} has settings that are nested too deeply") from None
    if not args and not cfg:
        raise CheckpointError(f"{path} is not a checkpoint of fairseq: it has neither args nor cfg")
    sections = _sections(args) if args else {key: plain_dict(value) for key, value in cfg.items()}
    values = _flat(sections.get("model", {}))
    return FairseqSettings(
        architecture=str(values.get("arch") or values.get("_name") or "transformer"),
        model=_read_model(values, problems),
        others=values,
        task=sections.get("task", {}),
        bpe=sections.get("bpe", {}),
        tokenizer=sections.get("tokenizer", {}),
        generation=sections.get("generation", {}),
    )


def unsupported(settings: FairseqSettings) -> list[str]:
    """List the features that are not supported."""
    model, task = settings.model, settings.task.get("_name") or TASK
    problems = [text for name, text in UNSUPPORTED.items() if settings.others.get(name) not in (None, False, 0, "", [])]
    if not settings.architecture.startswith("transformer") or settings.architecture.startswith(OTHER_ARCHITECTURES):
        problems.append(f"the architecture {settings.architecture}")
    if task != TASK:
        problems.append(f"the task {task}")
    if model.activation_fn not in ACTIVATIONS:
        problems.append(f"the activation {model.activation_fn}")
    return list(dict.fromkeys([*problems, *_differences(model)]))


def _differences(model: FairseqModelSettings) -> Iterator[str]:
    for name in SAME_IN_BOTH:
        encoder, decoder = (getattr(model, f"{side}_{name}") for side in ("encoder", "decoder"))
        if encoder != decoder:
            yield f"encoder and decoder with different {name} ({encoder} and {decoder})"
    for name in ("decoder_input_dim", "decoder_output_dim"):
        if getattr(model, name) not in (None, model.decoder_embed_dim):
            yield f"projections around the decoder ({name} is {getattr(model, name)})"
    if model.no_decoder_final_norm and model.decoder_normalize_before:
        yield "a final norm in the encoder alone (no_decoder_final_norm)"


def _sections(args: Values) -> dict[str, Values]:
    """Convert the one namespace of older checkpoints to sections."""
    named = {section: {**args, "_name": args.get(section)} for section in ("task", "bpe", "tokenizer")}
    positions = args.get("max_positions")  # of both sides, in very old checkpoints
    old = {} if positions is None else {"max_source_positions": positions, "max_target_positions": positions}
    return {"model": {**old, **args}, "generation": args, **named}


def _flat(values: Values) -> Values:
    """Rename nested settings: ``encoder.layers`` becomes ``encoder_layers``."""
    inner = {
        f"{section}_{name}": value
        for section in NESTED
        if isinstance(values.get(section), dict)
        for name, value in values[section].items()
    }
    return {**values, **inner}


def _read_model(values: Values, problems: list[str]) -> FairseqModelSettings:
    hints = get_type_hints(FairseqModelSettings)
    valid: Values = {}
    for field in fields(FairseqModelSettings):
        value = values.get(field.name)
        if value is None:
            continue
        expected = hints[field.name] if hints[field.name] in (bool, str) else int
        if type(value) is expected and (expected is not int or value > 0):
            valid[field.name] = value
        else:
            problems.append(f"{field.name} is {value!r}")
    model = FairseqModelSettings(**valid)
    inherited = {
        f"decoder_{name}": getattr(model, f"encoder_{name}")
        for name in ("embed_dim", "ffn_embed_dim")
        if values.get(f"decoder_{name}") is None
    }
    return replace(model, **inherited)


def architecture_of(
    path: Path,
    settings: FairseqModelSettings,
    embeddings: Embeddings,
    sizes: tuple[int, int],
    positions: int,
    final_norm: bool,
) -> Architecture:
    """Return the architecture that the settings and the sizes of the dictionaries describe."""
    source, target = sizes
    try:
        return Architecture(
            source_vocabulary=source,
            target_vocabulary=target,
            width=settings.encoder_embed_dim,
            heads=settings.encoder_attention_heads,
            encoder_layers=settings.encoder_layers,
            decoder_layers=settings.decoder_layers,
            feed_forward=settings.encoder_ffn_embed_dim,
            activation=ACTIVATIONS[settings.activation_fn],
            norm_first=settings.norm_first,
            final_norm=final_norm,
            embedding_norm=settings.layernorm_embedding,
            positions="none"
            if settings.no_token_positional_embeddings
            else "learned",  # or computed by fairseq's formula
            max_positions=positions,
            joint_vocabulary=embeddings.joint,
            tied_output=embeddings.tied,
            embedding_scale=1.0 if settings.no_scale_embedding else None,
        )
    except ValueError as error:
        raise CheckpointError(f"the settings and dictionaries of {path} contradict each other: {error}") from None


def unsupported_search(settings: dict[str, Any]) -> list[str]:
    """List the search settings that are not supported."""
    return [
        f"{text} in the search ({name})"
        for name, (off, text) in UNSUPPORTED_SEARCH.items()
        if settings.get(name) not in off
    ]


def read_generation(settings: dict[str, Any], positions: int) -> GenerationOptions:
    """Return the search options of fairseq, limited to the positions of the model.

    fairseq stops when as many hypotheses are finished as there are beams, and never outputs padding. It forces the end
    token at the maximum length, which is left out since it would hide the truncation. ``max_len_a`` is multiplied by
    the length of the source, here the longest possible.
    """
    limit = int(_number(settings, "max_len_a", MAX_LEN_A) * positions + _number(settings, "max_len_b", MAX_LEN_B))
    return GenerationOptions(
        decoder_start_token_id=TOKENS.eos,
        eos_token_id=TOKENS.eos,
        pad_token_id=TOKENS.pad,
        num_beams=int(_number(settings, "beam", BEAM)),
        min_new_tokens=min(int(_number(settings, "min_len", MIN_LEN)), positions),
        max_new_tokens=max(1, min(limit + 1, positions)),
        length_penalty=0.0 if settings.get("unnormalized") else _number(settings, "lenpen", 1.0),
        early_stopping=True,
        no_repeat_ngram_size=int(_number(settings, "no_repeat_ngram_size", 0)),
        suppress_tokens=(TOKENS.pad,),
    )


def _number(settings: dict[str, Any], name: str, default: float) -> float:
    value = settings.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else default
