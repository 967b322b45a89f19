"""Write every kind of Hugging Face folder, with the tokenizer of transformers for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hugging_face_models import write_bart, write_m2m100, write_marian, write_mbart, write_nllb, write_pegasus
from t5_folder import KINDS, write_t5
from transformers import (
    BartTokenizer,
    M2M100Tokenizer,
    MarianTokenizer,
    MBart50Tokenizer,
    MBartTokenizer,
    NllbTokenizer,
    PegasusTokenizer,
    T5Tokenizer,
)

from seq2edge_export.loaders import load_checkpoint

TAGS = ("deu", "fra", "zho_Hans")
Write = Callable[[Path], Any]  # writes a folder and returns the model

BART_LIKE: dict[str, tuple[Write, Any]] = {
    "marian": (lambda folder: write_marian(folder, tags=TAGS), MarianTokenizer),
    "marian-separate": (lambda folder: write_marian(folder, separate=True), MarianTokenizer),
    "bart": (write_bart, BartTokenizer),
    "pegasus": (write_pegasus, PegasusTokenizer),
    "mbart": (write_mbart, MBartTokenizer),
    "mbart50": (lambda folder: write_mbart(folder, fifty=True), MBart50Tokenizer),
    "m2m100": (write_m2m100, M2M100Tokenizer),
    "nllb": (write_nllb, NllbTokenizer),
}


def t5_model(folder: Path, kind: str) -> Any:
    return KINDS[kind][1].from_pretrained(write_t5(folder, kind)).eval()


FOLDERS: dict[str, tuple[Write, Any]] = {
    **BART_LIKE,
    "t5": (lambda folder: t5_model(folder, "t5"), T5Tokenizer),
    "t5-v1.1": (lambda folder: t5_model(folder, "t5-v1.1"), T5Tokenizer),
    "mt5": (lambda folder: t5_model(folder, "mt5"), T5Tokenizer),
}
AS_SENTENCEPIECE = {"marian", "marian-separate", "m2m100"}  # transformers runs SentencePiece itself
CONVERTED = {"mbart", "mbart50", "pegasus"}  # transformers converts the SentencePiece model


def assert_same_text(
    folder: Path, tokenizer: Any, texts: list[str], *, spaces: str = "as they are", prefix: str = ""
) -> None:
    """Check that ids and decoded texts are those of transformers."""
    original = load_checkpoint(folder).source_model()
    if "src_lang" in vars(type(tokenizer)):
        tokenizer.src_lang = original.languages.source
    ours = original.tokenizer()
    ids = ours.encode(texts)
    assert ids == tokenizer([prefix + text for text in texts]).input_ids
    wanted = [tokenizer.decode(row, skip_special_tokens=True) for row in ids]
    assert ours.decode(ids) == ([text.strip() for text in wanted] if spaces == "stripped" else wanted)
