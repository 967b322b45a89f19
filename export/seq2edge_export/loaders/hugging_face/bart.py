"""Load BART, with byte-level BPE."""

from pathlib import Path

from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages
from seq2edge.errors import CheckpointError
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.loaders.hugging_face.config import HuggingFaceConfig, Traits, model_type
from seq2edge_export.loaders.hugging_face.load import load_folder
from seq2edge_export.loaders.hugging_face.tokenizer import (
    BOS,
    EOS,
    UNK,
    HuggingFaceText,
    byte_level_file,
    token_ids,
    tokenizers_tokenization,
)

TRAITS = Traits(
    norm_first=False,
    final_norm=False,
    embedding_norm=True,
    positions="learned",
    defaults={
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": 2,
    },
)


def recognizes(path: Path) -> bool:
    return model_type(path) == "bart"


def load_bart(path: Path) -> Checkpoint:
    return load_folder(path, "bart", TRAITS, read_text)


def read_text(folder: Path, config: HuggingFaceConfig, generation: GenerationOptions) -> HuggingFaceText:
    """Read byte-level BPE; sources have a start and an end token."""
    file = byte_level_file(folder)
    ids = token_ids(file)
    if BOS not in ids or ids.get(EOS) != config.eos:
        raise CheckpointError(f"{file} has the id {ids.get(EOS)} for {EOS!r}, expected {config.eos}, or has no {BOS!r}")
    tokenization = tokenizers_tokenization(file, source_bos=True)
    unk = ids.get(UNK, config.pad_token_id)  # bytes are never unknown
    return HuggingFaceText(tokenization=tokenization, unk=unk, bos=ids[BOS], languages=Languages(source="", target=""))
