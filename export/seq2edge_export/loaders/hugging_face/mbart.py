"""Load mBART and mBART-50, which translate many languages."""

import re
from pathlib import Path

from seq2edge.config.generation import GenerationOptions
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.loaders.hugging_face.config import (
    TOKENIZER_CONFIG,
    HuggingFaceConfig,
    Settings,
    Traits,
    model_type,
)
from seq2edge_export.loaders.hugging_face.languages import MBART, MBART50, Tagging, read_fairseq_text
from seq2edge_export.loaders.hugging_face.load import load_folder
from seq2edge_export.loaders.hugging_face.tokenizer import HuggingFaceText
from seq2edge_export.loaders.state_dict import read_object

TAG = re.compile(r"[a-z]{2}_[A-Z]{2}")
OLD = Tagging(pattern=TAG, known=MBART, source="en_XX", source_tag="after")
FIFTY = Tagging(pattern=TAG, known=MBART50, source="en_XX", source_tag="before")
FIFTY_TOKENS = 250_054  # size of mBART-50's vocabulary
TRAITS = Traits(
    norm_first=True,
    final_norm=True,
    embedding_norm=True,
    positions="learned",
    defaults={"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "forced_eos_token_id": 2},
)


def recognizes(path: Path) -> bool:
    return model_type(path) == "mbart"


def load_mbart(path: Path) -> Checkpoint:
    return load_folder(path, "mbart", TRAITS, read_text)


def read_text(folder: Path, config: HuggingFaceConfig, generation: GenerationOptions) -> HuggingFaceText:
    """Read the tokenizer; the source tag is at the end in mBART and at the start in mBART-50."""
    settings = read_object(folder / TOKENIZER_CONFIG, required=False)
    return read_fairseq_text(folder, config, generation, settings, FIFTY if _is_fifty(settings, config) else OLD)


def _is_fifty(settings: Settings, config: HuggingFaceConfig) -> bool:
    name = settings.get("tokenizer_class")
    return name.startswith("MBart50") if isinstance(name, str) else config.vocab_size >= FIFTY_TOKENS
