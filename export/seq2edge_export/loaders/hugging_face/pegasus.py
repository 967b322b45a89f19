"""Load PEGASUS, which summarizes texts."""

from pathlib import Path

from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.loaders.hugging_face.config import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    HuggingFaceConfig,
    Traits,
    model_type,
)
from seq2edge_export.loaders.hugging_face.load import load_folder
from seq2edge_export.loaders.hugging_face.tokenizer import (
    EOS,
    PAD,
    UNK,
    HuggingFaceText,
    check_special_tokens,
    pieces_tokenization,
    sentencepiece_ids,
    token_ids,
    tokenizers_tokenization,
)
from seq2edge_export.loaders.state_dict import read_object

PIECES = "spiece.model"
OFFSET = 103  # the ids before the pieces were only used in pretraining
TRAITS = Traits(
    norm_first=True,
    final_norm=True,
    embedding_norm=False,
    positions="halves",
    defaults={"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": 1},
)


def recognizes(path: Path) -> bool:
    return model_type(path) == "pegasus"


def load_pegasus(path: Path) -> Checkpoint:
    return load_folder(path, "pegasus", TRAITS, read_text)


def read_text(folder: Path, config: HuggingFaceConfig, generation: GenerationOptions) -> HuggingFaceText:
    """Read the tokenizer; sources have an end token."""
    languages = Languages(source="", target="")
    if (folder / TOKENIZER).is_file():
        ids = token_ids(folder / TOKENIZER)
        check_special_tokens(ids, config.eos)
        return HuggingFaceText(
            tokenization=tokenizers_tokenization(folder / TOKENIZER), unk=ids[UNK], languages=languages
        )
    offset = read_object(folder / TOKENIZER_CONFIG, required=False).get("offset", OFFSET)
    special = {PAD: 0, EOS: 1, "<mask_1>": 2, "<mask_2>": 3}
    special |= {f"<unk_{number}>": number + 2 for number in range(2, offset)} if offset else {}
    ids = sentencepiece_ids(folder / PIECES, special, first=2, offset=offset)
    check_special_tokens(ids, config.eos)
    silent = tuple(sorted({*special.values(), ids[UNK]} - {0, 1}))
    return HuggingFaceText(
        tokenization=pieces_tokenization(folder / PIECES, ids, silent), unk=ids[UNK], languages=languages
    )
