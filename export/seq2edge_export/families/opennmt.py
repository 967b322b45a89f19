"""The opennmt family: checkpoints of OpenNMT-py 3 (``.pt``) and folders of eole, its successor; needs torch."""

from pathlib import Path

from seq2edge.errors import CheckpointError
from seq2edge.tokenization import Tokenization
from seq2edge.tokens import SpecialTokens
from seq2edge_export.checkpoint import FORMAT_VERSION, Checkpoint, CheckpointConfig
from seq2edge_export.model import Transformer
from seq2edge_export.opennmt.build import build
from seq2edge_export.opennmt.eole_folder import is_eole_folder, read_eole_folder
from seq2edge_export.opennmt.given import Given
from seq2edge_export.opennmt.marks import special_tokens
from seq2edge_export.opennmt.pt_file import is_pt_file, read_pt_file
from seq2edge_export.opennmt.search import generation_of, unsupported_search
from seq2edge_export.opennmt.settings import unsupported_settings
from seq2edge_export.opennmt.shape import unsupported_tensors
from seq2edge_export.opennmt.text import tokenization_of, unsupported_text
from seq2edge_export.recipe.files import tokenizer_files


def recognises(path: Path) -> bool:
    return is_pt_file(path) if path.is_file() else is_eole_folder(path)


def load_opennmt(path: Path) -> Checkpoint:
    """Read a model that OpenNMT-py or eole could run; whatever ours cannot do is in one error."""
    given = read_eole_folder(path) if path.is_dir() else read_pt_file(path)
    _refuse(given)
    model = build(given)
    tokens = special_tokens(given, model.shape)
    rules, files = tokenizer_files(tokenization_of(given), given.folder)
    return Checkpoint(
        "opennmt", _config(model, tokens, rules), generation_of(given, tokens, model.shape), model, rules, files
    )


def _refuse(given: Given) -> None:
    problems = [*given.problems, *unsupported_settings(given.settings), *unsupported_text(given)]
    problems += [*unsupported_tensors(given.state), *unsupported_search(given.search)]
    if problems:
        raise CheckpointError(f"{given.path} has what this family cannot express: {'; '.join(problems)}")


def _config(model: Transformer, tokens: SpecialTokens, rules: Tokenization) -> CheckpointConfig:
    return CheckpointConfig(
        format_version=FORMAT_VERSION,
        architecture=model.shape,
        tokens=tokens,
        source_tokenizer=rules.source,
        target_tokenizer=rules.target,
        source_language="",
        target_language="",
    )
