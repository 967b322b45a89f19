"""The way of every Hugging Face family from a folder to a checkpoint.

The one Transformer from the settings and tensors of BART or a descendant of it.

The model card: what a README says about rights and languages in its head.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from seq2edge.config.architecture import Architecture
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError, DataError
from seq2edge_export.checkpoint import FORMAT_VERSION, Checkpoint, CheckpointConfig
from seq2edge_export.loaders.hugging_face.config import (
    ACTIVATIONS,
    HuggingFaceConfig,
    Settings,
    Traits,
    read_config,
    read_generation,
    unsupported,
)
from seq2edge_export.loaders.hugging_face.weights import (
    POSITIONS,
    TIED,
    Embeddings,
    fill_positions,
    find_embeddings,
    find_tables,
    give_model_names,
    read_weights,
    shape_bias,
    weight_map,
    with_positions,
)
from seq2edge_export.loaders.recipe.files import tokenizer_files
from seq2edge_export.loaders.state_dict import StoredTensors
from seq2edge_export.loaders.weight_map import fill, tensor_problems
from seq2edge_export.model.transformer import Transformer, without_weights


def build(folder: Path, config: HuggingFaceConfig, traits: Traits, state: StoredTensors) -> Transformer:
    """The model itself, every tensor in its place; what does not fit is in one error."""
    give_model_names(state)
    shape_bias(state)
    problems: list[str] = []
    embeddings = find_embeddings(config, state, problems)
    tables = find_tables(traits.table, config, state, problems)
    shape = _shape(folder, config, traits, embeddings)
    found = [*embeddings.weight_map(), *weight_map(shape)]
    # shapes alone: sizes that do not fit together could ask for any amount of memory
    problems += tensor_problems(state, found, without_weights(shape), ignored=(*TIED, *POSITIONS.values()))
    if problems:
        raise CheckpointError(
            f"{folder} does not hold the Transformer that its config describes: {'; '.join(problems)}"
        )
    model = without_weights(with_positions(shape, tables))
    fill(model, found, state)
    fill_positions(model, tables)
    return model.eval()


def _shape(folder: Path, config: HuggingFaceConfig, traits: Traits, embeddings: Embeddings) -> Architecture:
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
            joint_vocabulary=embeddings.joint,
            tied_output=embeddings.tied,
            output_bias=embeddings.bias,
            embedding_scale=None if config.scale_embedding else 1.0,
        )
    except ValueError as error:
        raise CheckpointError(f"the settings in {folder} do not fit together: {error}") from None


CARD = "README.md"
HEAD = re.compile(r"\A---\s*\n(.*?\n)---\s*\n", re.DOTALL)


def read_license(folder: Path) -> str:
    """The licence that the head of the card names, or nothing."""
    path = folder / CARD
    head = HEAD.match(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else None
    found = re.search(r"^license:\s*[\"']?([\w.\-]+)", head[1], re.MULTILINE) if head else None
    return found[1] if found else ""


def attribution(settings: dict[str, object]) -> str:
    """The name under which the model was published, where it is known."""
    name = settings.get("_name_or_path")
    return name if isinstance(name, str) and re.fullmatch(r"[\w.\-]+/[\w.\-]+", name) else ""


@dataclass(frozen=True, kw_only=True)
class HuggingFaceText:
    """How a family reads and writes: the files by their paths, the unknown token, and its languages."""

    rules: Tokenization
    unk: int
    bos: int | None = None  # None: the start token
    languages: Languages


ReadText = Callable[[Path, HuggingFaceConfig, GenerationOptions], HuggingFaceText]


def load(folder: Path, family: str, traits: Traits, read_text: ReadText) -> Checkpoint:
    """Read a folder; whatever our model cannot do is in one error."""
    config, content = read_config(folder, dict(traits.defaults))
    problems = unsupported(config, content, traits.fixed)
    generation = read_generation(folder, content, problems)
    text = None
    if generation is not None:
        try:
            text = read_text(folder, config, generation)
        except (DataError, CheckpointError) as error:
            problems.append(str(error))
    if problems or generation is None or text is None:
        raise CheckpointError(f"{folder} has what the family {family} cannot express: {'; '.join(problems)}")
    model = build(folder, config, traits, read_weights(folder))
    rules, files = tokenizer_files(text.rules, folder)
    tokens = _tokens(config, generation, text)
    about = about_model(folder, model.shape, tokens, rules, text.languages, content)
    generation = _within(_aimed(generation, text.languages), model.shape.max_positions)
    return Checkpoint(family, about, generation, model, rules, files, text.languages)


def _tokens(config: HuggingFaceConfig, generation: GenerationOptions, text: HuggingFaceText) -> SpecialTokens:
    bos = generation.decoder_start_token_id if text.bos is None else text.bos
    return SpecialTokens(pad=config.pad_token_id, bos=bos, eos=config.eos, unk=text.unk)


def _aimed(generation: GenerationOptions, languages: Languages) -> GenerationOptions:
    """The same with the tag of the target language, where the folder names one."""
    if not languages.target or languages.target_tag not in ("first", "start"):
        return generation
    tag = languages.codes[languages.target]
    if languages.target_tag == "first":
        return replace(generation, forced_bos_token_id=tag)
    return replace(generation, decoder_start_token_id=tag)


def _within(generation: GenerationOptions, positions: int) -> GenerationOptions:
    """The same for as many tokens as the model has positions; transformers would fail behind the last."""
    if generation.longest(1) - 1 <= positions:
        return generation
    return generation.within(1 + positions, prefix_length=1)


def about_model(
    folder: Path,
    shape: Architecture,
    tokens: SpecialTokens,
    rules: Tokenization,
    languages: Languages,
    content: Settings,
) -> CheckpointConfig:
    """What a checkpoint says of itself, with what its card and its config say of rights."""
    return CheckpointConfig(
        format_version=FORMAT_VERSION,
        architecture=shape,
        tokens=tokens,
        source_tokenizer=rules.source,
        target_tokenizer=rules.target,
        source_language=languages.source,
        target_language=languages.target,
        license=read_license(folder),
        attribution=attribution(content),
    )
