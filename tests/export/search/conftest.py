"""Tiny random models of transformers, and a decoder state that runs one of them without a cache."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from transformers import (
    GenerationConfig,
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.modeling_outputs import BaseModelOutput

from seq2edge.search import DecoderState, StepOutput

START, PAD, END, VOCABULARY = 0, 1, 2, 40
IDS = {"decoder_start_token_id": START, "pad_token_id": PAD, "eos_token_id": END}
SIZES = {
    "vocab_size": VOCABULARY,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "forced_eos_token_id": None,
}
T5_SIZES = {"vocab_size": VOCABULARY, "d_model": 16, "d_kv": 8, "num_layers": 2, "num_heads": 2, "d_ff": 32}


def marian() -> PreTrainedModel:
    return varied(MarianMTModel(MarianConfig(**SIZES, **IDS)), spread=0.2)


def t5() -> PreTrainedModel:
    return varied(T5ForConditionalGeneration(T5Config(**T5_SIZES, **IDS)), spread=0.6)


def varied(model: PreTrainedModel, *, spread: float) -> PreTrainedModel:
    """Random weights of such sizes that outputs differ, do not only repeat themselves, and end at times.

    In double precision a batch of another shape gives the same logits, once they are rounded to float32.
    """
    random = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if weight.dim() == 2:
                weight.normal_(std=1.0 if "embed" in name or "shared" in name else spread, generator=random)
        model.lm_head.weight.normal_(std=0.6, generator=random)
        model.lm_head.weight[END] *= 2.5
    model.generation_config = GenerationConfig(**IDS)
    return model.double().eval()


@pytest.fixture(scope="session", params=[marian, t5], ids=lambda make: make.__name__)
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    return request.param()


@pytest.fixture(scope="session")
def sources() -> dict[str, torch.Tensor]:
    """Sentences of different lengths."""
    lengths = torch.tensor([7, 4, 7, 1, 5, 6])
    ids = torch.randint(3, VOCABULARY, (len(lengths), 7), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(7) < lengths[:, None]
    return {"input_ids": ids.where(mask, PAD), "attention_mask": mask.long()}


class TransformersState(DecoderState):
    """Run a model of transformers over whole sequences; it keeps the tokens instead of a cache."""

    def __init__(self, model: PreTrainedModel, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> None:
        self.model, self.mask = model, attention_mask
        with torch.inference_mode():
            self.encoded = model.get_encoder()(input_ids, attention_mask=attention_mask).last_hidden_state
        self.sentences = torch.arange(len(input_ids))  # of each row of the last call
        self.sequences = torch.empty(len(input_ids), 0, dtype=torch.long)

    @torch.inference_mode()
    def step(self, tokens: np.ndarray, rows: np.ndarray) -> StepOutput:
        before = torch.as_tensor(rows).flatten()
        self.sentences = self.sentences[before]
        self.sequences = torch.cat([self.sequences[before], torch.as_tensor(tokens).flatten(0, 1)], dim=1)
        output = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=self.encoded[self.sentences]),
            attention_mask=self.mask[self.sentences],
            decoder_input_ids=self.sequences,
            use_cache=False,
        )
        return StepOutput(output.logits[:, -1].float().numpy().reshape(*rows.shape, -1))


@pytest.fixture(scope="session")
def transformers_state() -> Callable[..., TransformersState]:
    return TransformersState
