"""The marian-native family: Marian's own model files, Transformers and the students of Bergamot."""

from dataclasses import replace
from pathlib import Path

from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import CheckpointError
from seq2edge_export.checkpoint import FORMAT_VERSION, Checkpoint, CheckpointConfig
from seq2edge_export.loaders.hugging_face.load import read_license
from seq2edge_export.loaders.marian.config import (
    Mapping,
    MarianConfig,
    MarianSettings,
    parse_yaml,
    read_config,
    shape_of,
)
from seq2edge_export.loaders.marian.files import (
    CONFIG,
    NPZ,
    Items,
    MarianFiles,
    find_files,
    is_model,
    read_archive,
    read_binary,
)
from seq2edge_export.loaders.marian.vocabulary import MarianText, read_text
from seq2edge_export.loaders.marian.weights import (
    TRAINED_POSITIONS,
    fill_neutral,
    left_out,
    unreadable,
    weight_map,
    widen,
)
from seq2edge_export.loaders.recipe.files import tokenizer_files
from seq2edge_export.loaders.state_dict import StateDict
from seq2edge_export.loaders.weight_map import WeightMapping, fill, shape_mismatch
from seq2edge_export.model.transformer import Transformer, without_weights

FAMILY = "marian-native"
MOST = 256  # tokens of an output; Marian's own limit depends on the source
BEAMS, NORMALIZE = 1, 1.0  # where nothing is said: what students are made for

recognises = is_model


def load_marian_native(path: Path) -> Checkpoint:
    """Read a model file, or the one in a folder; whatever ours cannot do is in one error."""
    files = find_files(path)
    items = read_items(files.model)
    problems: list[str] = []
    config, found = read_config(_settings_inside(files.model, items))
    problems += [*found, *unreadable(items), *_unsupported_search(files)]
    if TRAINED_POSITIONS in items:
        problems.append("trained positions (Wpos), which Marian's search does not count")
    if problems:
        raise CheckpointError(f"{files.model} has what this family cannot express: {'; '.join(problems)}")
    model = build(files.model, config, widen(files.model, items))
    text = read_text(files, config.vocabularies)
    rules, tokenizers = tokenizer_files(text.rules, files.model.parent)
    about = CheckpointConfig(
        format_version=FORMAT_VERSION,
        architecture=model.shape,
        tokens=text.tokens,
        source_tokenizer=rules.source,
        target_tokenizer=rules.target,
        source_language="",
        target_language="",
        license=read_license(files.model.parent),
    )
    return Checkpoint(FAMILY, about, _generation(files.search, text), model, rules, tokenizers)


def read_items(path: Path) -> Items:
    return read_archive(path) if path.suffix == NPZ else read_binary(path)


def build(path: Path, config: MarianConfig, state: StateDict) -> Transformer:
    """The model itself, every tensor in its place."""
    depth = config.encoder_layers + len(config.decoder_layers)
    if depth > len(state):
        raise CheckpointError(f"{path} should have {depth:,} layers, but there are {len(state):,} tensors in it")
    shape = shape_of(path, config)
    found = weight_map(config, shape, state)
    neutral = left_out(config, found, state)
    stored = [place for place in found if place not in neutral]
    unplaced = replace(shape, positions="none")  # sizes that do not fit together could ask for any amount of memory
    problems = _tensor_problems(state, stored, without_weights(unplaced))
    if problems:
        raise CheckpointError(f"{path} does not hold the Transformer that it describes: {'; '.join(problems)}")
    model = Transformer(shape)
    fill(model, stored, state)
    fill_neutral(model, neutral)
    return model.eval()


def _settings_inside(path: Path, items: Items) -> Mapping:
    if CONFIG not in items:
        raise CheckpointError(f"{path} has no settings inside ({CONFIG}), which Marian writes with every model")
    content = items[CONFIG].content.tobytes().rstrip(b"\0")
    try:
        return parse_yaml(content.decode(), f"{CONFIG} in {path}")
    except UnicodeDecodeError:
        raise CheckpointError(f"{CONFIG} in {path} is not UTF-8") from None


def _unsupported_search(files: MarianFiles) -> list[str]:
    problems: list[str] = []
    search = MarianSettings(files.search, problems)
    if search.number("word-penalty") and search.whole("beam-size", BEAMS) > 1:
        problems.append("a word penalty, which the search has not (set word-penalty to 0 to do without)")
    if search.whole("beam-size", BEAMS) < 1:
        problems.append("beam-size 0")
    if any(path.suffix == ".fsv" for path in files.vocabularies):
        problems.append("factored vocabularies")
    search.number("normalize")
    return problems


def _tensor_problems(state: StateDict, found: list[WeightMapping], model: Transformer) -> list[str]:
    names = {place.theirs for place in found}
    problems = [f"{name} is missing" for name in sorted(names - state.keys())]
    problems += [f"{name} has no place in it" for name in sorted(state.keys() - names)]
    return problems + [
        text for place in found if place.theirs in state if (text := shape_mismatch(place, state[place.theirs], model))
    ]


def _generation(search: Mapping, text: MarianText) -> GenerationOptions:
    settings, tokens = MarianSettings(search, []), text.tokens
    return GenerationOptions(
        decoder_start_token_id=tokens.bos,
        eos_token_id=tokens.eos,
        pad_token_id=tokens.pad,
        num_beams=settings.whole("beam-size", BEAMS),
        length_penalty=settings.number("normalize", 0.0 if "beam-size" in search else NORMALIZE),
        max_new_tokens=MOST,
        suppress_tokens=None if settings.flag("allow-unk") else (tokens.unk,),
    )
