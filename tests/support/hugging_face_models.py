"""Write tiny seeded folders with transformers, and compare translations with its ``generate``."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from scripts_text import sentences, train_sentencepiece
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from tolerances import log_probability_rounding, network_rounding, score_rounding
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
    NllbTokenizer,
    PegasusConfig,
    PegasusForConditionalGeneration,
    PreTrainedModel,
)

from seq2edge.config.architecture import Architecture
from seq2edge_export.loaders.hugging_face.languages import M2M100, NLLB

SHAPE = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 96,
}
CLASSES: dict[str, tuple[type, type]] = {
    "marian": (MarianConfig, MarianMTModel),
    "bart": (BartConfig, BartForConditionalGeneration),
    "mbart": (MBartConfig, MBartForConditionalGeneration),
    "pegasus": (PegasusConfig, PegasusForConditionalGeneration),
    "m2m100": (M2M100Config, M2M100ForConditionalGeneration),
}


@dataclass(frozen=True)
class Pair:
    """A bundle and its source model in transformers."""

    translator: Any
    model: PreTrainedModel
    tokenizer: Any

    def assert_same(self, texts: list[str], *, ours: dict[str, Any] | None = None, **options: Any) -> None:
        """Compare tokens, scores and text of every output; ``ours`` are options of seq2edge only, such as languages."""
        results = self.translator.translate(texts, **(options if ours is None else ours))
        expected = generate(self.model, self.tokenizer(texts, padding=True, return_tensors="pt"), **options)
        count = len(expected.sequences) // len(texts)
        fill = {self.model.config.pad_token_id, first_end(self.model, options)}  # transformers treats id 0 as None
        named = self.translator.tokenizer.target.get_piece_size()  # M2M100 has unused rows, which it decodes as <unk>
        for index, result in enumerate(results):
            for rank, output in enumerate((result, *result.alternatives)):
                row = expected.sequences[index * count + rank].tolist()[1:]
                assert list(output.tokens) == row[: len(output.tokens)], texts[index]
                assert set(row[len(output.tokens) :]) <= fill
                shown = [token for token in row if token < named]
                assert output.text.strip() == self.tokenizer.decode(shown, skip_special_tokens=True).strip()
                if "sequences_scores" in expected:
                    difference = abs(output.score - expected.sequences_scores[index * count + rank].item())
                    shape, penalty = self.translator.manifest.architecture, options.get("length_penalty", 1.0)
                    assert difference < score_limit(shape, len(output.tokens), penalty)


def score_limit(shape: Architecture, tokens: int, length_penalty: float) -> float:
    """Return the tolerance of a score of a model with logits of about 20."""
    return score_rounding(tokens, log_probability_rounding(network_rounding(shape, size=20)), length_penalty)


def first_end(model: PreTrainedModel, options: dict[str, Any]) -> int:
    found = options.get("eos_token_id", model.generation_config.eos_token_id)
    return found[0] if isinstance(found, list) else found


def generate(model: PreTrainedModel, inputs: Any, **options: Any) -> Any:
    inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    return model.generate(**inputs, **options, return_dict_in_generate=True, output_scores=True)


def make_model(family: str, *, seed: int = 3, **settings: Any) -> PreTrainedModel:
    """Return a model with seeded weights, scaled so that different texts have different outputs."""
    config_class, model_class = CLASSES[family]
    torch.manual_seed(seed)
    model = model_class(config_class(**(SHAPE | settings))).eval()
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if tensor.dim() == 1:
                tensor.add_(torch.randn(tensor.shape) * 0.1)
            elif tensor.requires_grad:
                tensor.mul_(25 if "encoder_attn.out" in name else 15 if ".layers." in name else 9)
        norms = [norm for name, norm in model.named_modules() if "decoder" in name and name.endswith("layer_norm")]
        norms[-1].weight.mul_(2)
        if family == "marian":
            model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape) * 0.3)
    return model


def write_marian(folder: Path, *, separate: bool = False, tags: tuple[str, ...] = (), **settings: Any) -> MarianMTModel:
    """Write a folder like OPUS-MT: two SentencePiece models and a vocabulary whose last id is padding."""
    folder.mkdir(parents=True)
    halves = [text for text in sentences() if text.isascii()], [text for text in sentences() if not text.isascii()]
    if not separate:
        halves = (sentences(), halves[1])
    models = [train_sentencepiece(half, size) for half, size in zip(halves, (320, 280), strict=True)]
    pieces = [_pieces(model) for model in models]
    for name, content in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(content)
    if separate:
        vocabularies = {"vocab.json": pieces[0], "target_vocab.json": pieces[1]}
    else:
        vocabularies = {"vocab.json": [*(f">>{tag}<<" for tag in tags), *dict.fromkeys(pieces[0] + pieces[1])]}
    sizes = [_write_vocabulary(folder / name, pieces) for name, pieces in vocabularies.items()]
    write_json(folder / "tokenizer_config.json", {"separate_vocabs": separate, "tokenizer_class": "MarianTokenizer"})
    pad = min(sizes) - 1
    settings = {
        "vocab_size": sizes[0],
        "decoder_vocab_size": sizes[-1],
        "share_encoder_decoder_embeddings": not separate,
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "activation_function": "swish",
        "scale_embedding": True,
        **settings,
    }
    model = make_model("marian", **settings)
    options = {"bad_words_ids": [[pad]], "num_beams": 4, "max_length": 48, "forced_eos_token_id": 0}
    return save(model, folder, **options, renormalize_logits=True)


def write_bart(folder: Path, **settings: Any) -> PreTrainedModel:
    """Write byte-level BPE in ``vocab.json`` and ``merges.txt``, and the search options of a summarization model."""
    folder.mkdir(parents=True)
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = BpeTrainer(
        vocab_size=420, special_tokens=marks, initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(sentences(), trainer)
    tokenizer.model.save(str(folder))
    model = make_model("bart", vocab_size=420, **settings)
    options = {"forced_bos_token_id": 0, "early_stopping": True, "length_penalty": 2.0, "no_repeat_ngram_size": 3}
    return save(model, folder, **options, num_beams=4, max_length=30, min_length=6)


def write_pegasus(folder: Path, **settings: Any) -> PreTrainedModel:
    folder.mkdir(parents=True)
    pieces = train_sentencepiece(sentences(), 400, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folder / "spiece.model").write_bytes(pieces)
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PegasusTokenizer"})
    model = make_model("pegasus", vocab_size=103 + count_pieces(pieces), scale_embedding=True, **settings)
    return save(model, folder, num_beams=3, max_length=28, length_penalty=0.6)


def write_mbart(folder: Path, *, fifty: bool = False, **settings: Any) -> PreTrainedModel:
    """Write mBART, whose decoder starts with the target tag, or mBART-50, where it is the forced first token."""
    folder.mkdir(parents=True)
    pieces = train_sentencepiece(sentences(), 400)
    (folder / "sentencepiece.bpe.model").write_bytes(pieces)
    name = "MBart50Tokenizer" if fifty else "MBartTokenizer"
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": name, "src_lang": "en_XX"})
    start = {"decoder_start_token_id": 2} if fifty else {}
    size = count_pieces(pieces) + 1 + (52 if fifty else 25) + 1
    model = make_model("mbart", vocab_size=size, scale_embedding=True, **start, **settings)
    return save(model, folder, num_beams=4, max_length=26, early_stopping=True)


def write_m2m100(folder: Path, **settings: Any) -> PreTrainedModel:
    folder.mkdir(parents=True)
    pieces = train_sentencepiece(sentences(), 400)
    (folder / "sentencepiece.bpe.model").write_bytes(pieces)
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *_pieces(pieces)]
    write_json(folder / "vocab.json", {token: number for number, token in enumerate(tokens)})
    tags = [f"__{code}__" for code in M2M100]
    content = {"tokenizer_class": "M2M100Tokenizer", "additional_special_tokens": tags}
    write_json(folder / "tokenizer_config.json", content)
    model = make_model("m2m100", vocab_size=len(tokens) + 108, **settings)
    return save(model, folder, num_beams=5, max_length=30, early_stopping=True)


def write_nllb(folder: Path, **settings: Any) -> PreTrainedModel:
    folder.mkdir(parents=True)
    pieces = train_sentencepiece(sentences(), 500, "bpe")
    (folder / "sentencepiece.bpe.model").write_bytes(pieces)
    content = {"tokenizer_class": "NllbTokenizer", "additional_special_tokens": list(NLLB)}
    write_json(folder / "tokenizer_config.json", content)
    NllbTokenizer.from_pretrained(folder).save_pretrained(folder)
    model = make_model("m2m100", vocab_size=count_pieces(pieces) + 1 + 202 + 1, **settings)
    return save(model, folder, max_length=30)


def save(model: Any, folder: Path, **options: Any) -> Any:
    """Write a model with its search options."""
    for name, value in options.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(folder)
    return model


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def count_pieces(model: bytes) -> int:
    return len(_pieces(model)) + 3


def _pieces(model: bytes) -> list[str]:
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(number) for number in range(processor.get_piece_size())][3:]


def _write_vocabulary(path: Path, pieces: list[str]) -> int:
    tokens = ["</s>", "<unk>", *pieces, "<pad>"]
    write_json(path, {token: number for number, token in enumerate(tokens)})
    return len(tokens)
