"""The pegasus family: PEGASUS of Hugging Face, which shortens texts."""

from pathlib import Path

from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages
from seq2edge.errors import CheckpointError
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.loaders.hugging_face.config import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    HuggingFaceConfig,
    Traits,
    model_type,
)
from seq2edge_export.loaders.hugging_face.load import HuggingFaceText, load
from seq2edge_export.loaders.hugging_face.tokenizer import numbered, pieces_rules, token_ids, tokenizers_rules
from seq2edge_export.loaders.state_dict import read_object

PIECES = "spiece.model"
PAD, EOS, UNK = "<pad>", "</s>", "<unk>"
OFFSET = 103  # ids that only its pretraining used stand before the pieces
TRAITS = Traits(
    norm_first=True,
    final_norm=True,
    embedding_norm=False,
    table="halves",
    defaults={"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": 1},
)


def recognises(path: Path) -> bool:
    return model_type(path) == "pegasus"


def load_pegasus(path: Path) -> Checkpoint:
    return load(path, "pegasus", TRAITS, read_text)


def read_text(folder: Path, config: HuggingFaceConfig, generation: GenerationOptions) -> HuggingFaceText:
    """Pieces with an end mark behind them."""
    languages = Languages(source="", target="")
    if (folder / TOKENIZER).is_file():
        ids = token_ids(folder / TOKENIZER)
        _check(ids, config)
        return HuggingFaceText(rules=tokenizers_rules(folder / TOKENIZER), unk=ids[UNK], languages=languages)
    offset = read_object(folder / TOKENIZER_CONFIG, wanted=False).get("offset", OFFSET)
    marks = {PAD: 0, EOS: 1, "<mask_1>": 2, "<mask_2>": 3}
    marks |= {f"<unk_{number}>": number + 2 for number in range(2, offset)} if offset else {}
    ids = numbered(folder / PIECES, marks, first=2, offset=offset)
    _check(ids, config)
    silent = tuple(sorted({*marks.values(), ids[UNK]} - {0, 1}))
    return HuggingFaceText(rules=pieces_rules(folder / PIECES, ids, silent), unk=ids[UNK], languages=languages)


def _check(ids: dict[str, int], config: HuggingFaceConfig) -> None:
    if UNK not in ids or ids.get(EOS) != config.eos:
        raise CheckpointError(
            f"the tokenizer has {EOS!r} as {ids.get(EOS)}, but config.json as {config.eos}, or no {UNK!r}"
        )
