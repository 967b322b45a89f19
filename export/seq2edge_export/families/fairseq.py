"""The fairseq family: checkpoints of fairseq's ``transformer`` with their dictionaries; needs torch."""

from pathlib import Path

from seq2edge.errors import CheckpointError
from seq2edge_export.checkpoint import FORMAT_VERSION, Checkpoint, CheckpointConfig
from seq2edge_export.fairseq.build import build
from seq2edge_export.fairseq.dictionary import TOKENS
from seq2edge_export.fairseq.files import Files, find_files, find_model
from seq2edge_export.fairseq.generation import read_generation, unsupported_search
from seq2edge_export.fairseq.pickled import looks_like_fairseq, read_pickled
from seq2edge_export.fairseq.settings import Settings, read_settings, unsupported
from seq2edge_export.fairseq.tensors import read_tensors
from seq2edge_export.fairseq.text import Text, read_text
from seq2edge_export.recipe.files import tokenizer_files
from seq2edge_export.state_dict import StateDict

EMBEDDINGS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")


def recognises(path: Path) -> bool:
    try:
        model = find_model(path)
    except CheckpointError:  # several, of which none is named
        model = next(path.glob("*.pt"), None)
    return model is not None and looks_like_fairseq(model)


def load_fairseq(path: Path) -> Checkpoint:
    """Read a checkpoint; whatever our model cannot do is in one error."""
    files = find_files(path)
    content = read_pickled(files.model)
    problems: list[str] = []
    settings, state = read_settings(content, files.model, problems), read_tensors(content, files.model)
    problems += [*unsupported(settings), *unsupported_search(settings.generation)]
    text = _text(settings, files, state, problems)
    if problems or text is None:
        raise CheckpointError(f"{files.model} has what this family cannot express: {'; '.join(problems)}")
    model = build(files.model, settings.model, state, text.sizes)
    rules, tokenizer = tokenizer_files(text.rules, files.model.parent)
    config = CheckpointConfig(
        format_version=FORMAT_VERSION,
        architecture=model.shape,
        tokens=TOKENS,
        source_tokenizer=rules.source,
        target_tokenizer=rules.target,
        source_language=text.source,
        target_language=text.target,
    )
    generation = read_generation(settings.generation, model.shape.max_positions)
    return Checkpoint("fairseq", config, generation, model, rules, tokenizer)


def _text(settings: Settings, files: Files, state: StateDict, problems: list[str]) -> Text | None:
    """How it reads and writes; what is wrong with it is added to ``problems``."""
    source, target = (len(state[name]) if name in state and state[name].dim() else 0 for name in EMBEDDINGS)
    try:
        return read_text(settings, files, (source, target or source))
    except CheckpointError as error:
        problems.append(str(error))
        return None
