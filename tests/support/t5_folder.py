"""Write small T5 folders with transformers, and a vocabulary for them."""

import io
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from transformers import MT5Config, MT5ForConditionalGeneration, PreTrainedModel, T5Config, T5ForConditionalGeneration

WORDS = {
    "English": "the old man sees a red house nobody sells bread every bird remembers its winter sea",
    "German": "größer Straße Übung können das Mädchen läuft über die Brücke naß",
    "French": "l'été où ça naïve élève cœur garçon déjà français",
    "Russian": "минуту назад он ещё стоял у окна и читал длинное письмо",
    "Greek": "η θάλασσα είναι ήρεμη σήμερα",
    "Arabic": "هل يمكنك أن تساعدني في حمل هذه الحقيبة",
    "Hindi": "कृपया मुझे एक गिलास पानी दीजिए",
    "Chinese": "今天的 天气 比昨天 好得多 ， 。",
    "Japanese": "明日の 朝は カタカナ ひらがな 起きる",
    "Korean": "한국어 문장을 읽는다",
    "Thai": "น้ำ ภาษาไทย วันนี้",
    "Vietnamese": "Việt Nam đường phố",
}
# Text that normalization changes, unknown characters, and special tokens.
ODD = [
    "ﬁ",
    "①",
    "Ａ",
    "½",
    "™",
    "\u00ad",
    "e\u0301",
    "🙂",
    "👨\u200d👩\u200d👧",
    "\t",
    "\u00a0",
    "\u3000",
    "\u2028",
    "...",
]
ODD += [
    "$4.50",
    "12,000",
    "▁",
    "\u200b",
    "<unk>",
    "</s>",
    "<pad>",
    "<extra_id_0>",
    "<extra_id_7>",
    "<extra_id_99>",
    "<s>",
]
SIZES = {
    "d_model": 16,
    "d_kv": 12,
    "d_ff": 40,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 2,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "decoder_start_token_id": 0,
}
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "t5": (T5Config, T5ForConditionalGeneration, {}),
    "t5-v1.1": (
        T5Config,
        T5ForConditionalGeneration,
        {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "mt5": (MT5Config, MT5ForConditionalGeneration, {}),
}
SENTINELS = {"t5": 100, "t5-v1.1": 100, "mt5": 0}
SEEDS = {"t5": 7, "t5-v1.1": 13, "mt5": 11}  # with different outputs, some of which end
UNUSED = 12  # rows after the vocabulary, as in T5


def lines(count: int, *, seed: int = 0) -> list[str]:
    """Return lines of words in one to three languages, some of them odd, with or without spaces."""
    chance = random.Random(seed)
    return [_line(chance) for _ in range(count)]


def _line(chance: random.Random) -> str:
    languages = chance.sample(sorted(WORDS), chance.randint(1, 3))
    words = [chance.choice(WORDS[language].split()) for language in languages for _ in range(chance.randint(1, 5))]
    words += chance.sample(ODD, chance.choice([0, 0, 1, 3]))
    chance.shuffle(words)
    return chance.choice(["", "", "translate English to German: "]) + chance.choice([" ", " ", "  ", ""]).join(words)


@cache
def sentencepiece() -> bytes:
    """Train a vocabulary with the special ids of T5: padding 0, end 1, unknown 2, no start."""
    chance = random.Random(1)
    texts = [" ".join(chance.choices(words.split(), k=8)) for words in WORDS.values() for _ in range(60)]
    content = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=content,
        vocab_size=240,
        character_coverage=0.995,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    return content.getvalue()


def write_t5(folder: Path, kind: str = "t5", **changes: Any) -> Path:
    """Write a folder; ``changes`` are settings of config.json."""
    model = make_t5(kind, **changes)
    model.save_pretrained(folder)
    (folder / "spiece.model").write_bytes(sentencepiece())
    settings = {"tokenizer_class": "T5Tokenizer", "extra_ids": SENTINELS[kind]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def make_t5(kind: str, **changes: Any) -> PreTrainedModel:
    config, model_class, settings = KINDS[kind]
    pieces = SentencePieceProcessor(model_proto=sentencepiece()).get_piece_size()
    size = pieces + SENTINELS[kind] + UNUSED
    model: PreTrainedModel = model_class(config(**{**SIZES, **settings, "vocab_size": size, **changes})).eval()
    if kind != "t5":
        model.lm_head.weight = torch.nn.Parameter(torch.empty(size, SIZES["d_model"]))
    vary(model, SEEDS[kind])
    return model


def vary(model: PreTrainedModel, seed: int) -> None:
    """Scale weights so that sublayers outweigh the embeddings and outputs do not repeat one token."""
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if weight.dim() == 1:
                weight.normal_(1.0, 0.2, generator=chance)
            else:
                weight.normal_(std=spread(name), generator=chance)
        model.lm_head.weight[1] *= 3.0
        if model.lm_head.weight is model.shared.weight:
            model.decoder.final_layer_norm.weight *= 4.0  # to spread the logits as in unscaled models


def spread(name: str) -> float:
    if "shared" in name or "lm_head" in name or "relative" in name:
        return 1.0
    return 0.1 if ".q." in name else 1.2 if ".o." in name or "wo" in name else 0.4
