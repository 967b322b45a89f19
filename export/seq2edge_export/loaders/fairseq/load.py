"""Load checkpoints of fairseq's ``transformer`` with their dictionaries."""

from pathlib import Path

from seq2edge.errors import CheckpointError, listed
from seq2edge_export.checkpoint import Checkpoint, CheckpointConfig
from seq2edge_export.loaders.fairseq.config import (
    TOKENS,
    FairseqModelSettings,
    FairseqSettings,
    architecture_of,
    read_generation,
    read_settings,
    unsupported,
    unsupported_search,
)
from seq2edge_export.loaders.fairseq.files import FairseqFiles, find_files, find_model, looks_like_fairseq, read_pickled
from seq2edge_export.loaders.fairseq.vocabulary import FairseqText, read_text
from seq2edge_export.loaders.fairseq.weights import (
    OUTPUT,
    SOURCE,
    TARGET,
    count_positions,
    final_norms,
    find_embeddings,
    learned_sides,
    position_tables,
    read_tensors,
    table_problems,
    upgraded,
)
from seq2edge_export.loaders.hugging_face.weights import POSITIONS, weight_map
from seq2edge_export.loaders.positions import fill_positions
from seq2edge_export.loaders.state_dict import StateDict, count_layers
from seq2edge_export.loaders.tokenizer_files import TokenizerChoice, with_bundle_names
from seq2edge_export.loaders.weight_map import fill, mismatches
from seq2edge_export.model.transformer import Transformer, without_weights

EMBEDDINGS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")


def recognizes(path: Path) -> bool:
    try:
        model = find_model(path)
    except CheckpointError:  # several files, none with a usual name
        model = next(path.glob("*.pt"), None)
    return model is not None and looks_like_fairseq(model)


def load_fairseq(path: Path, choice: TokenizerChoice | None = None) -> Checkpoint:
    """Load a checkpoint; one error lists everything that is not supported."""
    files = find_files(path)
    content = read_pickled(files.model)
    problems: list[str] = []
    settings, state = read_settings(content, files.model, problems), read_tensors(content, files.model)
    problems += [*unsupported(settings), *unsupported_search(settings.generation)]
    text = _read_text(settings, files, state, choice, problems)
    if problems or text is None:
        raise CheckpointError(f"{files.model} is not supported by the family fairseq: {listed(problems)}")
    model = build(files.model, settings.model, state, text.sizes)
    tokenization, tokenizer_files = with_bundle_names(text.tokenization, files.model.parent)
    config = CheckpointConfig.create(model.architecture, TOKENS, tokenization, (text.source, text.target))
    generation = read_generation(settings.generation, model.architecture.max_positions)
    return Checkpoint("fairseq", config, generation, model, tokenization, tokenizer_files)


def _read_text(
    settings: FairseqSettings,
    files: FairseqFiles,
    state: StateDict,
    choice: TokenizerChoice | None,
    problems: list[str],
) -> FairseqText | None:
    """Read the tokenization; what is not supported is added to ``problems``."""
    source, target = (len(state[name]) if name in state and state[name].dim() else 0 for name in EMBEDDINGS)
    try:
        return read_text(settings, files, (source, target or source), choice)
    except CheckpointError as error:
        problems.append(str(error))
        return None


def build(path: Path, settings: FairseqModelSettings, state: StateDict, sizes: tuple[int, int]) -> Transformer:
    """Build the model; one error lists every tensor that does not match, before memory is allocated."""
    _check_layers(path, settings, state)
    norms, state = final_norms(state), upgraded(state)
    embeddings, positions = find_embeddings(settings, state), count_positions(settings, state)
    final_norm = settings.norm_first and norms["encoder"]
    architecture = architecture_of(path, settings, embeddings, sizes, positions, final_norm)
    mappings = [*embeddings.weight_map(), *weight_map(architecture)]
    tables = [POSITIONS[side] for side in learned_sides(settings)]
    try:
        shapes = without_weights(architecture)  # nothing is allocated before it is checked
    except RuntimeError:  # sizes that overflow
        raise CheckpointError(f"the settings of {path} describe a Transformer that is too large") from None
    problems = mismatches(state, mappings, shapes, ignored={*tables, SOURCE, TARGET, OUTPUT})
    problems += table_problems(tables, state, architecture.width)
    if settings.norm_first and norms["encoder"] != norms["decoder"]:
        problems.append("encoder and decoder are of versions of which only one has a final norm")
    if problems:
        raise CheckpointError(f"the tensors of {path} do not match its settings: {listed(problems)}")
    model = Transformer(architecture)
    fill(model, mappings, state)
    fill_positions(model, position_tables(settings, state, architecture))
    return model.eval()


def _check_layers(path: Path, settings: FairseqModelSettings, state: StateDict) -> None:
    """Check the number of layers first, since the settings may claim any number."""
    expected = {"encoder": settings.encoder_layers, "decoder": settings.decoder_layers}
    stored = {side: count_layers(state, f"{side}.layers.") for side in expected}
    problems = [
        f"the {side} has {stored[side]} layers, expected {count}"
        for side, count in expected.items()
        if stored[side] != count
    ]
    if problems:
        raise CheckpointError(f"the tensors of {path} do not match its settings: {listed(problems)}")
