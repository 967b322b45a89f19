"""Load MarianMT, such as OPUS-MT."""

from pathlib import Path

from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages
from seq2edge.config.tokenizer import Tokenization
from seq2edge.errors import CheckpointError
from seq2edge.text.vocabularies.plain import read_ids
from seq2edge.text.vocabularies.sentencepiece import LANGUAGE_TAG
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.loaders.hugging_face.config import TOKENIZER_CONFIG, HuggingFaceConfig, Traits, model_type
from seq2edge_export.loaders.hugging_face.load import load_folder
from seq2edge_export.loaders.hugging_face.tokenizer import VOCABULARY, HuggingFaceText
from seq2edge_export.loaders.state_dict import read_object

TARGET_VOCABULARY = "target_vocab.json"
SOURCE_PIECES, TARGET_PIECES = "source.spm", "target.spm"
TRAITS = Traits(
    norm_first=False,
    final_norm=False,
    embedding_norm=False,
    positions="halves",
    defaults={"pad_token_id": 58100, "eos_token_id": 0, "decoder_start_token_id": 58100, "forced_eos_token_id": 0},
)


def recognizes(path: Path) -> bool:
    return model_type(path) == "marian"


def load_marian(path: Path) -> Checkpoint:
    return load_folder(path, "marian", TRAITS, read_text)


def read_text(folder: Path, config: HuggingFaceConfig, generation: GenerationOptions) -> HuggingFaceText:
    """Read two SentencePiece models, and one vocabulary or one for each side; language tags start the source."""
    settings = read_object(folder / TOKENIZER_CONFIG, required=False)
    target_file = TARGET_VOCABULARY if settings.get("separate_vocabs") else VOCABULARY
    source, target = read_ids(folder / VOCABULARY), read_ids(folder / target_file)
    eos, unk = (str(settings.get(f"{name}_token") or default) for name, default in (("eos", "</s>"), ("unk", "<unk>")))
    _check(source, target, eos, unk, config)
    tokenization = Tokenization(
        source=VOCABULARY,
        target=target_file,
        kind="pieces",
        source_codes=SOURCE_PIECES,
        target_codes=TARGET_PIECES,
        silent=(target[unk],),
    )
    return HuggingFaceText(tokenization=tokenization, unk=target[unk], languages=_languages(settings, source))


def _languages(settings: dict[str, object], ids: dict[str, int]) -> Languages:
    codes = {token[2:-2]: number for token, number in ids.items() if LANGUAGE_TAG.fullmatch(token)}
    source, target = (str(settings.get(f"{side}_lang") or "") for side in ("source", "target"))
    if not codes:
        return Languages(source=source, target=target)
    return Languages(source=source, target=target if target in codes else "", codes=codes, target_tag="source")


def _check(source: dict[str, int], target: dict[str, int], eos: str, unk: str, config: HuggingFaceConfig) -> None:
    """Refuse special tokens that are missing or have two ids."""
    for token in (eos, unk):
        if token not in source or source[token] != target.get(token):
            ids = (source.get(token), target.get(token))
            raise CheckpointError(f"{token!r} has the ids {ids} in the vocabularies, expected the same id in both")
    if target[eos] != config.eos:
        raise CheckpointError(f"{eos!r} has the id {target[eos]}, but eos_token_id is {config.eos}")
