"""Every setting of the trainer, each written once; needs nothing."""

from dataclasses import dataclass
from typing import Literal

from seq2edge.architecture import Activation, Positions
from seq2edge.settings import setting


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    vocabulary: int = setting(8000, "pieces in the vocabulary (of each side, if they are separate)")
    tokenizer: Literal["unigram", "bpe"] = setting("unigram", "kind of SentencePiece model")
    joint_vocabulary: bool = setting(True, "one vocabulary for both sides")
    character_coverage: float = setting(0.9995, "share of the characters that get a piece; the rest becomes bytes")


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    width: int = setting(256, "numbers in the vector of a token")
    heads: int = setting(4, "attention heads")
    encoder_layers: int = setting(6, "layers of the encoder")
    decoder_layers: int = setting(2, "layers of the decoder; few make translation fast")
    feed_forward: int = setting(1024, "width inside the feed-forward layers")
    activation: Activation = setting("relu", "activation of the feed-forward layers")
    gated: bool = setting(False, "gated feed-forward layers")
    norm_first: bool = setting(True, "layer norm before each sublayer, not after it")
    positions: Positions = setting("sinusoidal", "kind of position vectors")
    max_positions: int = setting(512, "longest sentence in tokens")
    tied_output: bool = setting(True, "use the target embedding as output projection")


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    batch_tokens: int = setting(4096, "padded tokens of the longer side in a batch")
    accumulate: int = setting(1, "batches that make one update")
    learning_rate: float = setting(1e-3, "learning rate at the end of the warm-up")
    warmup_steps: int = setting(1000, "updates until the learning rate is reached")
    cooldown_steps: int = setting(0, "last updates, in which the learning rate falls to zero")
    weight_decay: float = setting(0.01, "decay of the weight matrices")
    clip_norm: float = setting(1.0, "largest norm of a gradient")
    label_smoothing: float = setting(0.1, "probability given to all other tokens")
    dropout: float = setting(0.1, "share of numbers dropped in training")
    max_steps: int = setting(20000, "updates after which training ends")
    evaluate_every: int = setting(500, "updates between measurements on the dev set")
    save_every: int = setting(100, "updates between saved states")
    average: int = setting(5, "last measured weights whose average becomes the model")
    patience: int = setting(10, "measurements without a better BLEU after which training ends")
    seed: int = setting(1, "seed of everything random")
    device: Literal["auto", "cpu", "cuda"] = setting("auto", "where to train; a resumed run stays")
    precision: Literal["auto", "fp32", "bf16"] = setting("auto", "numbers to compute with; auto is bf16 where it pays")
    threads: int = setting(0, "CPU threads; 0 takes all that are allowed")
    bleu_tokenizer: Literal["13a", "intl", "zh", "char"] = setting("13a", "how sacreBLEU splits words; zh for Chinese")
    store: Literal["fp32", "fp16"] = setting("fp32", "numbers in the checkpoint; fp16 makes it half as large")
