"""How a T5 folder's text becomes ids; needs sentencepiece."""

import re
from pathlib import Path

from seq2edge.errors import DataError
from seq2edge.tokens import SpecialTokens
from seq2edge.vocabularies import load_sentencepiece
from seq2edge_export.hugging_face_folder import TOKENIZER_CONFIG, Settings, read_settings

PIECES, ADDED = "spiece.model", "added_tokens.json"
SENTINELS = 100  # of a tokenizer that does not say how many
MARKS = {"<pad>", "</s>", "<unk>"}
TASK = re.compile(r"translation(?:_([a-z]+)_to_([a-z]+))?")


def special_tokens(folder: Path, config: Settings, problems: list[str]) -> SpecialTokens | None:
    """The ids of the marks: T5 begins its outputs with padding."""
    if not (folder / PIECES).is_file():
        problems.append(f"{PIECES} is missing (tokenizer.json is not read: take {PIECES} from the original model)")
        return None
    try:
        model = load_sentencepiece(folder / PIECES).model
    except DataError as error:
        problems.append(str(error))
        return None
    pad, start = config.get("pad_token_id"), config.get("decoder_start_token_id")
    pad = model.piece_to_id("<pad>") if pad is None else pad
    return SpecialTokens(
        pad=pad, bos=pad if start is None else start, eos=model.piece_to_id("</s>"), unk=model.unk_id()
    )


def count_sentinels(folder: Path, problems: list[str]) -> int:
    """How many ``<extra_id_N>`` come behind the pieces; other tokens that were added are a problem."""
    settings = read_settings(folder / TOKENIZER_CONFIG)
    found = settings.get("extra_ids")
    count = SENTINELS if found is None else int(found)
    known = MARKS | {f"<extra_id_{number}>" for number in range(count)}
    entries = settings.get("added_tokens_decoder") or {}
    added = [str(entry.get("content")) if isinstance(entry, dict) else str(entry) for entry in entries.values()]
    others = sorted({*added, *read_settings(folder / ADDED)} - known)
    if others:
        problems.append(f"the tokenizer has added tokens, which only tokenizer.json could read: {', '.join(others)}")
    return count


def task_of(config: Settings) -> tuple[str, str, str]:
    """The prefix and the languages of the task in config.json, if it knows one translation and no other."""
    tasks = config.get("task_specific_params") or {}
    found = {
        (str(task.get("prefix", "")), *(match[1] or "", match[2] or ""))
        for name, task in tasks.items()
        if (match := TASK.fullmatch(name)) and isinstance(task, dict)
    }
    return found.pop() if len(found) == 1 else ("", "", "")
