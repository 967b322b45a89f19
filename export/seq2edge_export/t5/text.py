"""How a T5 folder's text becomes ids; needs sentencepiece and tokenizers."""

import re
from collections.abc import Mapping
from pathlib import Path

from seq2edge.errors import CheckpointError, DataError
from seq2edge.languages import Languages
from seq2edge.tokenization import Tokenization
from seq2edge.vocabularies import load_sentencepiece
from seq2edge_export.hugging_face.folder import TOKENIZER, TOKENIZER_CONFIG, Settings
from seq2edge_export.hugging_face.loading import Text
from seq2edge_export.hugging_face.tokenizer_file import token_ids, tokenizers_rules
from seq2edge_export.json_object import read_object
from seq2edge_export.t5.shape import end_of

PIECES, ADDED = "spiece.model", "added_tokens.json"
SENTINELS = 100  # of a tokenizer that does not say how many
PAD, EOS, UNK = "<pad>", "</s>", "<unk>"
TASK = re.compile(r"translation(?:_([a-z]+)_to_([a-z]+))?")


def read_text(folder: Path, config: Settings, problems: list[str]) -> Text | None:
    """SentencePiece with sentinels behind its pieces; ``tokenizer.json`` where there is more, or no SentencePiece."""
    prefix, source, target = task_of(config)
    try:
        sentinels, others = read_added(folder)
        if (folder / TOKENIZER).is_file() and (others or not (folder / PIECES).is_file()):
            ids = token_ids(folder / TOKENIZER)
            rules = tokenizers_rules(folder / TOKENIZER, source_prefix=prefix)
        else:
            if others:
                problems.append(f"the tokenizer has added tokens, which only {TOKENIZER} could read: {others}")
            ids, pieces = _marks(folder), str(folder / PIECES)
            rules = Tokenization(source=pieces, target=pieces, kind="t5", sentinels=sentinels, source_prefix=prefix)
        _check(ids, config)
    except (CheckpointError, DataError) as error:
        problems.append(str(error))
        return None
    return Text(rules=rules, unk=ids[UNK], languages=Languages(source=source, target=target))


def read_added(folder: Path) -> tuple[int, str]:
    """How many ``<extra_id_N>`` come behind the pieces, and the other tokens that were added."""
    settings = read_object(folder / TOKENIZER_CONFIG, wanted=False)
    count = settings.get("extra_ids")
    count = SENTINELS if count is None else count
    if type(count) is not int or not 0 <= count <= 10_000:
        raise CheckpointError(f"extra_ids in {TOKENIZER_CONFIG} is {count!r}, which is no number of tokens")
    known = {PAD, EOS, UNK, *(f"<extra_id_{number}>" for number in range(count))}
    entries = [
        *(settings.get("added_tokens_decoder") or {}).values(),
        *(read_object(folder / TOKENIZER, wanted=False).get("added_tokens") or []),
    ]
    added = [str(entry.get("content")) if isinstance(entry, dict) else str(entry) for entry in entries]
    return count, ", ".join(sorted({*added, *read_object(folder / ADDED, wanted=False)} - known))


def task_of(config: Settings) -> tuple[str, str, str]:
    """The prefix and the languages of the task in config.json, if it knows one translation and no other."""
    tasks = config.get("task_specific_params") or {}
    found = {
        (str(task.get("prefix", "")), *(match[1] or "", match[2] or ""))
        for name, task in tasks.items()
        if (match := TASK.fullmatch(name)) and isinstance(task, dict)
    }
    return found.pop() if len(found) == 1 else ("", "", "")


def _marks(folder: Path) -> dict[str, int]:
    if not (folder / PIECES).is_file():
        raise CheckpointError(f"{folder} has neither {PIECES} nor {TOKENIZER}")
    model = load_sentencepiece(folder / PIECES).model
    return {PAD: model.piece_to_id(PAD), EOS: model.piece_to_id(EOS), UNK: model.unk_id()}


def _check(ids: Mapping[str, int], config: Settings) -> None:
    if UNK not in ids or ids.get(EOS) != end_of(config):
        raise CheckpointError(
            f"the tokenizer has {EOS!r} as {ids.get(EOS)}, but config.json as {end_of(config)}, or no {UNK!r}"
        )
