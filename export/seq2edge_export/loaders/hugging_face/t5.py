"""The t5 family: T5, FLAN-T5 and mT5 of Hugging Face.

The shape that a T5's config.json and tensors describe.

Where each tensor of Hugging Face's T5 goes in ours.

How a T5 folder's text becomes ids.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from seq2edge.config.architecture import Architecture
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError, DataError
from seq2edge.text.vocabularies import load_sentencepiece
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.loaders.hugging_face.config import (
    ACTIVATIONS,
    CONFIG,
    TOKENIZER,
    TOKENIZER_CONFIG,
    Settings,
    model_type,
    quantized,
    read_generation,
)
from seq2edge_export.loaders.hugging_face.load import HuggingFaceText, about_model
from seq2edge_export.loaders.hugging_face.tokenizer import token_ids, tokenizers_rules
from seq2edge_export.loaders.hugging_face.weights import read_weights
from seq2edge_export.loaders.recipe.files import tokenizer_files
from seq2edge_export.loaders.state_dict import Tensors, read_object
from seq2edge_export.loaders.weight_map import WeightMapping, fill, tensor_problems
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
LONGEST = 512  # relative positions have no end, but T5 was trained on sentences up to this length
SHARED, SOURCE, TARGET = "shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"
MARKS = ("pad_token_id", "decoder_start_token_id")


def with_defaults(config: Settings) -> Settings:
    """The settings of a T5 or mT5, with what transformers takes where one is left out; outputs begin with padding."""
    given = {name: value for name, value in config.items() if value is not None or not name.endswith("_token_id")}
    full = DEFAULTS | BY_TYPE[config["model_type"]] | given
    return {"decoder_start_token_id": full["pad_token_id"]} | full


def setting_problems(config: Settings) -> list[str]:
    """What cannot be done, whatever the tensors are."""
    problems = quantized(config)
    if not config.get("is_encoder_decoder", True):
        problems.append("it is an encoder alone or a decoder alone (is_encoder_decoder is false)")
    problems += [f"{name} is {config[name]!r}, which is no id" for name in MARKS if type(config[name]) is not int]
    if _activation(config)[1] not in ACTIVATIONS:
        problems.append(f"the activation is {_activation(config)[1]!r}; known are {', '.join(ACTIVATIONS)}")
    return problems


def end_of(config: Settings) -> Any:
    """The end mark; of several, the first, which the tokenizer writes."""
    found = config["eos_token_id"]
    return found[0] if isinstance(found, list) and found else found


def tables(state: Tensors) -> dict[str, str]:
    """Which tensor is the source embedding, the target embedding and the output projection."""
    shared = next((name for name in (SHARED, SOURCE, TARGET, OUTPUT) if name in state), SHARED)
    names = {"source": SOURCE, "target": TARGET, "output": OUTPUT}
    return {use: name if name in state else shared for use, name in names.items()}


def shape_of(config: Settings, state: Tensors, *, longest: int) -> Architecture:
    """A ``ValueError`` or a ``TypeError`` says what cannot be."""
    gated, activation = _activation(config)
    names = tables(state)
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
        max_positions=max(longest, LONGEST, config.get("n_positions") or 0),
        relative_buckets=config["relative_attention_num_buckets"],
        relative_distance=config["relative_attention_max_distance"],
        joint_vocabulary=_same(state, names["source"], names["target"]),
        tied_output=_same(state, names["target"], names["output"]),
        output_scale=config["d_model"] ** -0.5 if _scales_output(config) else 1.0,
        embedding_scale=1.0,
        norm_epsilon=config["layer_norm_epsilon"],
    )


def _activation(config: Settings) -> tuple[bool, str]:
    """Whether it is gated, and its name in transformers."""
    kind, _, name = str(config["feed_forward_proj"]).rpartition("-")
    if kind == "gated" and name == "gelu":
        name = "gelu_new"
    return bool(config.get("is_gated_act", kind == "gated")), str(config.get("dense_act_fn", name))


def _scales_output(config: Settings) -> bool:
    """T5 1.0 does, 1.1 and mT5 do not; what tells them apart is a setting about something else."""
    if config["model_type"] != "t5":
        return False
    return bool(config.get("scale_decoder_outputs", config.get("tie_word_embeddings") is not False))


def _same(state: Tensors, first: str, second: str) -> bool:
    return first == second or torch.equal(state[first], state[second])


PROJECTIONS = {"q": "query", "k": "key", "v": "value", "o": "output"}
PLAIN = {"wi": "inner", "wo": "output"}
GATED = {"wi_0": "gate", "wi_1": "inner", "wo": "output"}
FIRST = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"  # the bias of all layers is in the first
# Copies of others, and a bias that transformers ignores too.
LEFT_OUT = {SHARED, SOURCE, TARGET, OUTPUT, f"decoder.{FIRST}".replace("layer.0.Self", "layer.1.EncDec")}


def weight_map(shape: Architecture, state: Tensors) -> list[WeightMapping]:
    """A place for every parameter of ours."""
    names = tables(state)
    found = [WeightMapping(names["target"], ("target_embedding.tokens.weight",))]
    if not shape.joint_vocabulary:
        found.append(WeightMapping(names["source"], ("source_embedding.tokens.weight",)))
    if not shape.tied_output:
        found.append(WeightMapping(names["output"], ("output.weight",)))
    for side in ("encoder", "decoder"):
        found.append(WeightMapping(f"{side}.{FIRST}", (f"{side}_bias.heads.weight",)))
        found.append(WeightMapping(f"{side}.final_layer_norm.weight", (f"{side}_norm.weight",)))
    feed_forward = ("DenseReluDense", "feed_forward", GATED if shape.gated else PLAIN)
    attention = ("SelfAttention", "attention", PROJECTIONS)
    cross = ("EncDecAttention", "cross", PROJECTIONS)
    for layer in range(shape.encoder_layers):
        found += _layer("encoder", layer, attention, feed_forward)
    for layer in range(shape.decoder_layers):
        found += _layer("decoder", layer, attention, cross, feed_forward)
    return found


def _layer(side: str, layer: int, *sublayers: tuple[str, str, dict[str, str]]) -> Iterator[WeightMapping]:
    for number, (theirs, ours, linears) in enumerate(sublayers):
        start = f"{side}.block.{layer}.layer.{number}"
        yield WeightMapping(f"{start}.layer_norm.weight", (f"{side}.{layer}.{ours}_residual.norm.weight",))
        for their_linear, our_linear in linears.items():
            yield WeightMapping(
                f"{start}.{theirs}.{their_linear}.weight", (f"{side}.{layer}.{ours}.{our_linear}.weight",)
            )


PIECES, ADDED = "spiece.model", "added_tokens.json"
SENTINELS = 100  # of a tokenizer that does not say how many
PAD, EOS, UNK = "<pad>", "</s>", "<unk>"
TASK = re.compile(r"translation(?:_([a-z]+)_to_([a-z]+))?")


def read_text(folder: Path, config: Settings, problems: list[str]) -> HuggingFaceText | None:
    """SentencePiece with sentinels behind its pieces; ``tokenizer.json`` where there is more, or no SentencePiece."""
    prefix, source, target = task_of(config)
    try:
        sentinels, others = read_added(folder)
        if (folder / TOKENIZER).is_file() and (others or not (folder / PIECES).is_file()):
            ids = token_ids(folder / TOKENIZER)
            rules = tokenizers_rules(folder / TOKENIZER, source_prefix=prefix)
        else:
            if others:
                problems.append(f"the tokenizer has added tokens, which only {TOKENIZER} could read: {others}")
            ids, pieces = _marks(folder), str(folder / PIECES)
            rules = Tokenization(source=pieces, target=pieces, kind="t5", sentinels=sentinels, source_prefix=prefix)
        _check(ids, config)
    except (CheckpointError, DataError) as error:
        problems.append(str(error))
        return None
    return HuggingFaceText(rules=rules, unk=ids[UNK], languages=Languages(source=source, target=target))


def read_added(folder: Path) -> tuple[int, str]:
    """How many ``<extra_id_N>`` come behind the pieces, and the other tokens that were added."""
    settings = read_object(folder / TOKENIZER_CONFIG, wanted=False)
    count = settings.get("extra_ids")
    count = SENTINELS if count is None else count
    if type(count) is not int or not 0 <= count <= 10_000:
        raise CheckpointError(f"extra_ids in {TOKENIZER_CONFIG} is {count!r}, which is no number of tokens")
    known = {PAD, EOS, UNK, *(f"<extra_id_{number}>" for number in range(count))}
    entries = [
        *(settings.get("added_tokens_decoder") or {}).values(),
        *(read_object(folder / TOKENIZER, wanted=False).get("added_tokens") or []),
    ]
    added = [str(entry.get("content")) if isinstance(entry, dict) else str(entry) for entry in entries]
    return count, ", ".join(sorted({*added, *read_object(folder / ADDED, wanted=False)} - known))


def task_of(config: Settings) -> tuple[str, str, str]:
    """The prefix and the languages of the task in config.json, if it knows one translation and no other."""
    tasks = config.get("task_specific_params") or {}
    found = {
        (str(task.get("prefix", "")), *(match[1] or "", match[2] or ""))
        for name, task in tasks.items()
        if (match := TASK.fullmatch(name)) and isinstance(task, dict)
    }
    return found.pop() if len(found) == 1 else ("", "", "")


def _marks(folder: Path) -> dict[str, int]:
    if not (folder / PIECES).is_file():
        raise CheckpointError(f"{folder} has neither {PIECES} nor {TOKENIZER}")
    model = load_sentencepiece(folder / PIECES).model
    return {PAD: model.piece_to_id(PAD), EOS: model.piece_to_id(EOS), UNK: model.unk_id()}


def _check(ids: Mapping[str, int], config: Settings) -> None:
    if UNK not in ids or ids.get(EOS) != end_of(config):
        raise CheckpointError(
            f"the tokenizer has {EOS!r} as {ids.get(EOS)}, but config.json as {end_of(config)}, or no {UNK!r}"
        )


def recognises(path: Path) -> bool:
    return model_type(path) in (*BY_TYPE, "umt5")


def load_t5(path: Path) -> Checkpoint:
    """Read a folder of transformers; whatever our model cannot do is in one error."""
    if model_type(path) not in BY_TYPE:
        raise CheckpointError(f"{path} is not T5 or mT5 (umt5 has a relative bias in every layer; ours has one)")
    config, state = with_defaults(read_object(path / CONFIG)), read_weights(path)
    problems = setting_problems(config)
    generation = read_generation(path, config, problems)
    text = read_text(path, config, problems)
    shape = _shape(config, state, generation, problems)
    if problems or text is None or generation is None or shape is None:
        raise CheckpointError(f"{path} has what the family t5 cannot express: {'; '.join(problems)}")
    model = without_weights(shape)
    fill(model, weight_map(shape, state), state)
    rules, files = tokenizer_files(text.rules, path)
    about = about_model(path, shape, _tokens(config, text), rules, text.languages, config)
    return Checkpoint("t5", about, generation, model.eval(), rules, files)


def _shape(
    config: Settings, state: Tensors, generation: GenerationOptions | None, problems: list[str]
) -> Architecture | None:
    """The shape, if there can be one; what tensors do not fit it is added to ``problems``."""
    if problems:
        return None
    try:
        shape = shape_of(config, state, longest=generation.longest(1) - 1 if generation else 1)
    except (TypeError, ValueError) as error:
        problems.append(f"{CONFIG} describes no Transformer: {error}")
        return None
    problems += tensor_problems(state, weight_map(shape, state), without_weights(shape), ignored=LEFT_OUT)
    return shape


def _tokens(config: Settings, text: HuggingFaceText) -> SpecialTokens:
    """T5 begins its outputs with padding."""
    bos = config["decoder_start_token_id"]
    return SpecialTokens(pad=config["pad_token_id"], bos=bos, eos=end_of(config), unk=text.unk)
