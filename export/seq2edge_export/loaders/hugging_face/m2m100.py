"""Load M2M100 and NLLB-200, which translate many languages."""

import re
from dataclasses import replace
from pathlib import Path

from seq2edge.config.generation import GenerationOptions
from seq2edge.config.tokenizer import Tokenization
from seq2edge.text.vocabularies.plain import read_ids
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.loaders.hugging_face.config import (
    TOKENIZER_CONFIG,
    HuggingFaceConfig,
    Settings,
    Traits,
    model_type,
)
from seq2edge_export.loaders.hugging_face.languages import (
    M2M100,
    NLLB,
    PIECES,
    WMT21,
    Tagging,
    find_languages,
    read_fairseq_text,
)
from seq2edge_export.loaders.hugging_face.load import load_folder
from seq2edge_export.loaders.hugging_face.tokenizer import UNK, VOCABULARY, HuggingFaceText, check_special_tokens
from seq2edge_export.loaders.state_dict import read_object
from seq2edge_export.loaders.tokenizer_files import write_temporary_json

M2M100_TAGS = Tagging(pattern=re.compile("__[a-z]+__"), known=M2M100, source="en", source_tag="before")
NLLB_TAGS = Tagging(pattern=re.compile("[a-z]{3}_[A-Z][a-z]{3}"), known=NLLB, source="eng_Latn", source_tag="before")
TRAITS = Traits(
    norm_first=True,
    final_norm=True,
    embedding_norm=False,
    positions="stretched",
    defaults={
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        "activation_function": "relu",
        "scale_embedding": True,
    },
)


def recognizes(path: Path) -> bool:
    return model_type(path) == "m2m_100"


def load_m2m100(path: Path) -> Checkpoint:
    return load_folder(path, "m2m100", TRAITS, read_text)


def read_text(folder: Path, config: HuggingFaceConfig, generation: GenerationOptions) -> HuggingFaceText:
    """Read the tokenizer; M2M100 has a vocabulary file, NLLB uses the ids of SentencePiece."""
    settings = read_object(folder / TOKENIZER_CONFIG, required=False)
    if (folder / VOCABULARY).is_file():
        return _m2m100_text(folder, config, generation, settings)
    tagging = replace(NLLB_TAGS, source_tag="after") if settings.get("legacy_behaviour") else NLLB_TAGS
    return read_fairseq_text(folder, config, generation, settings, tagging)


def _m2m100_text(
    folder: Path, config: HuggingFaceConfig, generation: GenerationOptions, settings: Settings
) -> HuggingFaceText:
    """Read the vocabulary and add the tags, whose ids follow but which it does not contain."""
    ids = read_ids(folder / VOCABULARY)
    check_special_tokens(ids, config.eos)
    known = WMT21 if settings.get("language_codes") == "wmt21" else M2M100
    codes = {code: len(ids) + index for index, code in enumerate(known)}
    vocabulary = write_temporary_json(VOCABULARY, ids | {f"__{code}__": number for code, number in codes.items()})
    tokenization = Tokenization(
        source=str(vocabulary),
        target=str(vocabulary),
        kind="pieces",
        source_codes=PIECES,
        target_codes=PIECES,
        silent=(ids[UNK], *codes.values()),
    )
    return HuggingFaceText(
        tokenization=tokenization,
        unk=ids[UNK],
        bos=ids.get("<s>"),
        languages=find_languages(settings, codes, generation, M2M100_TAGS),
    )
