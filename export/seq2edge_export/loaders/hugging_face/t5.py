"""Load T5, FLAN-T5 and mT5."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from seq2edge.config.architecture import Architecture
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError, DataError, listed
from seq2edge.text.vocabularies import load_sentencepiece
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.loaders.hugging_face.config import (
    ACTIVATIONS,
    CONFIG,
    TOKENIZER,
    TOKENIZER_CONFIG,
    Settings,
    model_type,
    read_generation,
    unsupported_quantization,
)
from seq2edge_export.loaders.hugging_face.load import config_of
from seq2edge_export.loaders.hugging_face.tokenizer import (
    EOS,
    PAD,
    UNK,
    HuggingFaceText,
    check_special_tokens,
    token_ids,
    tokenizers_tokenization,
)
from seq2edge_export.loaders.hugging_face.weights import read_weights
from seq2edge_export.loaders.state_dict import Tensors, read_object
from seq2edge_export.loaders.tokenizer_files import with_bundle_names
from seq2edge_export.loaders.weight_map import WeightMapping, fill, mismatches
from seq2edge_export.model.transformer import without_weights

DEFAULTS: Settings = {
    "d_model": 512,
    "d_kv": 64,
    "num_decoder_layers": None,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "relu",
    "pad_token_id": 0,
    "eos_token_id": 1,
}
BY_TYPE: dict[str, Settings] = {
    "t5": {"vocab_size": 32128, "d_ff": 2048, "num_layers": 6, "num_heads": 8},
    "mt5": {"vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu"},
}
MIN_POSITIONS = 512  # relative positions have no limit, but T5 was trained with this length
SHARED, SOURCE, TARGET = "shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"
SPECIAL_IDS = ("pad_token_id", "decoder_start_token_id")
PROJECTIONS = {"q": "query", "k": "key", "v": "value", "o": "output"}
PLAIN = {"wi": "inner", "wo": "output"}
GATED = {"wi_0": "gate", "wi_1": "inner", "wo": "output"}
RELATIVE_BIAS = (
    "block.0.layer.0.SelfAttention.relative_attention_bias.weight"  # shared by all layers, stored in the first
)
# Copies of tied tensors, and a bias that transformers ignores too.
IGNORED = {SHARED, SOURCE, TARGET, OUTPUT, f"decoder.{RELATIVE_BIAS}".replace("layer.0.Self", "layer.1.EncDec")}
PIECES, ADDED = "spiece.model", "added_tokens.json"
SENTINELS = 100  # default number of a tokenizer
TASK = re.compile(r"translation(?:_([a-z]+)_to_([a-z]+))?")


def recognizes(path: Path) -> bool:
    return model_type(path) in (*BY_TYPE, "umt5")


def load_t5(path: Path) -> Checkpoint:
    """Load a folder; one error lists everything that is not supported."""
    if model_type(path) not in BY_TYPE:
        raise CheckpointError(
            f"{path} is not T5 or mT5 (umt5 has a relative bias in every layer, which is not supported)"
        )
    config, state = with_defaults(read_object(path / CONFIG)), read_weights(path)
    problems = unsupported(config)
    generation = read_generation(path, config, problems)
    text = read_text(path, config, problems)
    architecture = _architecture(config, state, generation, problems)
    if problems or text is None or generation is None or architecture is None:
        raise CheckpointError(f"{path} is not supported by the family t5: {listed(problems)}")
    model = without_weights(architecture)
    fill(model, weight_map(architecture, state), state)
    tokenization, files = with_bundle_names(text.tokenization, path)
    tokens = _special_tokens(config, text)
    checkpoint_config = config_of(path, architecture, tokens, tokenization, text.languages, config)
    return Checkpoint("t5", checkpoint_config, generation, model.eval(), tokenization, files)


def _architecture(
    config: Settings, state: Tensors, generation: GenerationOptions | None, problems: list[str]
) -> Architecture | None:
    """Return the architecture; invalid settings and mismatching tensors are added to ``problems``."""
    if problems:
        return None
    try:
        architecture = architecture_of(config, state, max_new_tokens=generation.longest(1) - 1 if generation else 1)
    except (TypeError, ValueError) as error:
        problems.append(f"{CONFIG} does not describe a Transformer: {error}")
        return None
    problems += mismatches(state, weight_map(architecture, state), without_weights(architecture), ignored=IGNORED)
    return architecture


def _special_tokens(config: Settings, text: HuggingFaceText) -> SpecialTokens:
    bos = config["decoder_start_token_id"]
    return SpecialTokens(pad=config["pad_token_id"], bos=bos, eos=eos_of(config), unk=text.unk)


def with_defaults(config: Settings) -> Settings:
    """Add the defaults of transformers to the settings; the decoder starts with padding."""
    present = {name: value for name, value in config.items() if value is not None or not name.endswith("_token_id")}
    full = DEFAULTS | BY_TYPE[config["model_type"]] | present
    return {"decoder_start_token_id": full["pad_token_id"]} | full


def unsupported(config: Settings) -> list[str]:
    """List the settings that are not supported."""
    problems = unsupported_quantization(config)
    if not config.get("is_encoder_decoder", True):
        problems.append("it is only an encoder or a decoder (is_encoder_decoder is false)")
    problems += [
        f"{name} is {config[name]!r}, which is not an id" for name in SPECIAL_IDS if type(config[name]) is not int
    ]
    if _activation(config)[1] not in ACTIVATIONS:
        problems.append(f"the activation is {_activation(config)[1]!r}, expected one of {', '.join(ACTIVATIONS)}")
    return problems


def eos_of(config: Settings) -> Any:
    """Return the end token; of several, the first, which the tokenizer appends."""
    eos = config["eos_token_id"]
    return eos[0] if isinstance(eos, list) and eos else eos


def embedding_names(state: Tensors) -> dict[str, str]:
    """Return the names of the source embedding, the target embedding and the output projection."""
    shared = next((name for name in (SHARED, SOURCE, TARGET, OUTPUT) if name in state), SHARED)
    names = {"source": SOURCE, "target": TARGET, "output": OUTPUT}
    return {use: name if name in state else shared for use, name in names.items()}


def architecture_of(config: Settings, state: Tensors, *, max_new_tokens: int) -> Architecture:
    """Return the architecture; invalid settings raise ``ValueError`` or ``TypeError``."""
    gated, activation = _activation(config)
    names = embedding_names(state)
    layers = config["num_layers"]
    return Architecture(
        source_vocabulary=config["vocab_size"],
        target_vocabulary=config["vocab_size"],
        width=config["d_model"],
        heads=config["num_heads"],
        encoder_layers=layers,
        decoder_layers=layers if config["num_decoder_layers"] is None else config["num_decoder_layers"],
        feed_forward=config["d_ff"],
        attention_width=config["d_kv"] * config["num_heads"],
        attention_scale=1.0,
        activation=ACTIVATIONS[activation],
        gated=gated,
        bias=False,
        norm="rms",
        positions="relative",
        max_positions=max(max_new_tokens, MIN_POSITIONS, config.get("n_positions") or 0),
        relative_buckets=config["relative_attention_num_buckets"],
        relative_distance=config["relative_attention_max_distance"],
        joint_vocabulary=_same(state, names["source"], names["target"]),
        tied_output=_same(state, names["target"], names["output"]),
        output_scale=config["d_model"] ** -0.5 if _scales_output(config) else 1.0,
        embedding_scale=1.0,
        norm_epsilon=config["layer_norm_epsilon"],
    )


def _activation(config: Settings) -> tuple[bool, str]:
    """Return whether the activation is gated, and its name in transformers."""
    kind, _, name = str(config["feed_forward_proj"]).rpartition("-")
    if kind == "gated" and name == "gelu":
        name = "gelu_new"
    return bool(config.get("is_gated_act", kind == "gated")), str(config.get("dense_act_fn", name))


def _scales_output(config: Settings) -> bool:
    """Return whether logits are scaled, as in T5 1.0; T5 1.1 is recognized by its untied output."""
    if config["model_type"] != "t5":
        return False
    return bool(config.get("scale_decoder_outputs", config.get("tie_word_embeddings") is not False))


def _same(state: Tensors, first: str, second: str) -> bool:
    return first == second or torch.equal(state[first], state[second])


def weight_map(architecture: Architecture, state: Tensors) -> list[WeightMapping]:
    """Map every parameter."""
    names = embedding_names(state)
    mappings = [WeightMapping(names["target"], ("target_embedding.tokens.weight",))]
    if not architecture.joint_vocabulary:
        mappings.append(WeightMapping(names["source"], ("source_embedding.tokens.weight",)))
    if not architecture.tied_output:
        mappings.append(WeightMapping(names["output"], ("output.weight",)))
    for side in ("encoder", "decoder"):
        mappings.append(WeightMapping(f"{side}.{RELATIVE_BIAS}", (f"{side}_bias.heads.weight",)))
        mappings.append(WeightMapping(f"{side}.final_layer_norm.weight", (f"{side}_norm.weight",)))
    feed_forward = ("DenseReluDense", "feed_forward", GATED if architecture.gated else PLAIN)
    attention = ("SelfAttention", "attention", PROJECTIONS)
    cross = ("EncDecAttention", "cross", PROJECTIONS)
    for layer in range(architecture.encoder_layers):
        mappings += _layer("encoder", layer, attention, feed_forward)
    for layer in range(architecture.decoder_layers):
        mappings += _layer("decoder", layer, attention, cross, feed_forward)
    return mappings


def _layer(side: str, layer: int, *sublayers: tuple[str, str, dict[str, str]]) -> Iterator[WeightMapping]:
    for number, (theirs, ours, linears) in enumerate(sublayers):
        start = f"{side}.block.{layer}.layer.{number}"
        yield WeightMapping(f"{start}.layer_norm.weight", (f"{side}.{layer}.{ours}_residual.norm.weight",))
        for their_linear, our_linear in linears.items():
            yield WeightMapping(
                f"{start}.{theirs}.{their_linear}.weight", (f"{side}.{layer}.{ours}.{our_linear}.weight",)
            )


def read_text(folder: Path, config: Settings, problems: list[str]) -> HuggingFaceText | None:
    """Read SentencePiece with sentinels, or ``tokenizer.json`` if there are other tokens or no SentencePiece model."""
    prefix, source, target = _task(config)
    try:
        sentinels, others = _read_added(folder)
        if (folder / TOKENIZER).is_file() and (others or not (folder / PIECES).is_file()):
            ids = token_ids(folder / TOKENIZER)
            tokenization = tokenizers_tokenization(folder / TOKENIZER, source_prefix=prefix)
        else:
            if others:
                problems.append(f"the tokenizer has added tokens, which need a {TOKENIZER}: {others}")
            ids, pieces = _special_ids(folder), str(folder / PIECES)
            tokenization = Tokenization(
                source=pieces, target=pieces, kind="t5", sentinels=sentinels, source_prefix=prefix
            )
        check_special_tokens(ids, eos_of(config))
    except (CheckpointError, DataError) as error:
        problems.append(str(error))
        return None
    return HuggingFaceText(tokenization=tokenization, unk=ids[UNK], languages=Languages(source=source, target=target))


def _read_added(folder: Path) -> tuple[int, str]:
    """Return the number of sentinels (``<extra_id_N>``), and the names of other added tokens."""
    settings = read_object(folder / TOKENIZER_CONFIG, required=False)
    count = settings.get("extra_ids")
    count = SENTINELS if count is None else count
    if type(count) is not int or not 0 <= count <= 10_000:
        raise CheckpointError(f"extra_ids in {TOKENIZER_CONFIG} is {count!r}, which is not a number of tokens")
    known = {PAD, EOS, UNK, *(f"<extra_id_{number}>" for number in range(count))}
    entries = [
        *(settings.get("added_tokens_decoder") or {}).values(),
        *(read_object(folder / TOKENIZER, required=False).get("added_tokens") or []),
    ]
    added = [str(entry.get("content")) if isinstance(entry, dict) else str(entry) for entry in entries]
    return count, ", ".join(sorted({*added, *read_object(folder / ADDED, required=False)} - known))


def _task(config: Settings) -> tuple[str, str, str]:
    """Return the prefix and languages of the only translation task in ``config.json``, if there is one."""
    tasks = config.get("task_specific_params") or {}
    translations = {
        (str(task.get("prefix", "")), *(match[1] or "", match[2] or ""))
        for name, task in tasks.items()
        if (match := TASK.fullmatch(name)) and isinstance(task, dict)
    }
    return translations.pop() if len(translations) == 1 else ("", "", "")


def _special_ids(folder: Path) -> dict[str, int]:
    if not (folder / PIECES).is_file():
        raise CheckpointError(f"{folder} has neither {PIECES} nor {TOKENIZER}")
    model = load_sentencepiece(folder / PIECES).model
    return {PAD: model.piece_to_id(PAD), EOS: model.piece_to_id(EOS), UNK: model.unk_id()}
