"""The bart family: BART of Hugging Face, with byte-level BPE."""

from pathlib import Path

from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages
from seq2edge.errors import CheckpointError
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.loaders.hugging_face.config import HuggingFaceConfig, Traits, model_type
from seq2edge_export.loaders.hugging_face.load import HuggingFaceText, load
from seq2edge_export.loaders.hugging_face.tokenizer import byte_level_file, token_ids, tokenizers_rules

BOS, EOS, UNK = "<s>", "</s>", "<unk>"
TRAITS = Traits(
    norm_first=False,
    final_norm=False,
    embedding_norm=True,
    table="learned",
    defaults={
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": 2,
    },
)


def recognises(path: Path) -> bool:
    return model_type(path) == "bart"


def load_bart(path: Path) -> Checkpoint:
    return load(path, "bart", TRAITS, read_text)


def read_text(folder: Path, config: HuggingFaceConfig, generation: GenerationOptions) -> HuggingFaceText:
    """Byte-level BPE, with a start and an end mark around the source."""
    file = byte_level_file(folder)
    ids = token_ids(file)
    if BOS not in ids or ids.get(EOS) != config.eos:
        raise CheckpointError(f"{file} has {EOS!r} as {ids.get(EOS)} and {BOS!r} as {ids.get(BOS)}, not as config.json")
    rules = tokenizers_rules(file, source_bos=True)
    unk = ids.get(UNK, config.pad_token_id)  # bytes leave nothing unknown
    return HuggingFaceText(rules=rules, unk=unk, bos=ids[BOS], languages=Languages(source="", target=""))
