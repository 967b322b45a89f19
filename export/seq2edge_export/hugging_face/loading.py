"""The way of every Hugging Face family from a folder to a checkpoint; needs torch."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from seq2edge.architecture import Architecture
from seq2edge.errors import CheckpointError, DataError
from seq2edge.generation import GenerationOptions
from seq2edge.languages import Languages
from seq2edge.tokenization import Tokenization
from seq2edge.tokens import SpecialTokens
from seq2edge_export.checkpoint import FORMAT_VERSION, Checkpoint, CheckpointConfig
from seq2edge_export.hugging_face.build import build
from seq2edge_export.hugging_face.card import attribution, read_license
from seq2edge_export.hugging_face.config import Config, read_config, unsupported
from seq2edge_export.hugging_face.folder import Settings
from seq2edge_export.hugging_face.generation import read_generation
from seq2edge_export.hugging_face.traits import Traits
from seq2edge_export.hugging_face.weights import read_weights
from seq2edge_export.recipe.files import tokenizer_files


@dataclass(frozen=True, kw_only=True)
class Text:
    """How a family reads and writes: the files by their paths, the unknown token, and its languages."""

    rules: Tokenization
    unk: int
    bos: int | None = None  # None: the start token
    languages: Languages


ReadText = Callable[[Path, Config, GenerationOptions], Text]


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


def _tokens(config: Config, generation: GenerationOptions, text: Text) -> SpecialTokens:
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
