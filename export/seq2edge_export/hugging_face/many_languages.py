"""Tokenizers with a tag for every language, as fairseq made them: mBART, M2M100, NLLB; needs tokenizers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from re import Pattern

from seq2edge.errors import CheckpointError
from seq2edge.generation import GenerationOptions
from seq2edge.languages import Languages, SourceTag, TargetTag
from seq2edge_export.hugging_face.config import Config
from seq2edge_export.hugging_face.folder import TOKENIZER, Settings
from seq2edge_export.hugging_face.loading import Text
from seq2edge_export.hugging_face.sentencepieces import FAIRSEQ, FAIRSEQ_OFFSET, numbered, pieces_rules
from seq2edge_export.hugging_face.tokenizer_file import token_ids, tokenizers_rules

PIECES = "sentencepiece.bpe.model"
BOS, EOS, UNK = "<s>", "</s>", "<unk>"


@dataclass(frozen=True, kw_only=True)
class Tagging:
    """How a family writes languages: what its tags look like, which there are, and where that of the source stands."""

    pattern: Pattern[str]
    known: Sequence[str]
    source: str  # the language of texts, where nothing says another
    source_tag: SourceTag


def read_fairseq_text(
    folder: Path, config: Config, generation: GenerationOptions, settings: Settings, tagging: Tagging
) -> Text:
    """The pieces and behind them the tags: as ``tokenizer.json`` has them, else by SentencePiece's own numbers."""
    if (folder / TOKENIZER).is_file():
        ids = token_ids(folder / TOKENIZER)
        codes = {token: ids[token] for token in sorted(ids, key=ids.__getitem__) if tagging.pattern.fullmatch(token)}
        rules = tokenizers_rules(folder / TOKENIZER)
    else:
        ids = numbered(folder / PIECES, FAIRSEQ, first=3, offset=FAIRSEQ_OFFSET)
        codes = {code: max(ids.values()) + 1 + place for place, code in enumerate(tagging.known)}
        rules = pieces_rules(folder / PIECES, ids | codes, (ids[UNK], *codes.values()))
    check_marks(ids, config)
    languages = find_languages(settings, codes, generation, tagging, bos=ids.get(BOS))
    return Text(rules=rules, unk=ids[UNK], bos=ids.get(BOS), languages=languages)


def find_languages(
    settings: Settings,
    codes: Mapping[str, int],
    generation: GenerationOptions,
    tagging: Tagging,
    *,
    bos: int | None = None,
) -> Languages:
    """The languages with the ids of their tags; the target's starts the decoder where no other token does."""
    if not codes:
        raise CheckpointError("the tokenizer has no tags of languages, which this family needs")
    start = generation.decoder_start_token_id
    target_tag: TargetTag = "start" if start in codes.values() or start == bos else "first"
    sources = (str(settings.get("src_lang")), tagging.source, *codes)
    named = {number: code for code, number in codes.items()}
    forced = start if target_tag == "start" else generation.forced_bos_token_id
    targets = (named.get(-1 if forced is None else forced, ""), str(settings.get("tgt_lang")))
    return Languages(
        source=next(code for code in sources if code in codes),
        target=next((code for code in targets if code in codes), ""),
        codes=dict(codes),
        source_tag=tagging.source_tag,
        target_tag=target_tag,
    )


def check_marks(ids: Mapping[str, int], config: Config) -> None:
    if UNK not in ids or ids.get(EOS) != config.eos:
        raise CheckpointError(
            f"the tokenizer has {EOS!r} as {ids.get(EOS)}, but config.json as {config.eos}, or no {UNK!r}"
        )
