"""Which of the embeddings are one and the same: the tensors decide, as in transformers; needs torch."""

from dataclasses import dataclass

import torch

from seq2edge_export.hugging_face.config import Config
from seq2edge_export.hugging_face.places import BIAS, DECODER, ENCODER, HEAD, SHARED
from seq2edge_export.placing import Place
from seq2edge_export.state_dict import Tensors
from seq2edge_export.stored_tensors import StoredTensors


@dataclass(frozen=True)
class Embeddings:
    """The names of the tensors that are embeddings and output projection, one name twice where they are one."""

    source: str
    target: str
    output: str
    bias: bool

    @property
    def joint(self) -> bool:
        return self.source == self.target

    @property
    def tied(self) -> bool:
        return self.output == self.target

    def places(self) -> list[Place]:
        found = [Place(self.target, ("target_embedding.tokens.weight",))]
        if not self.joint:
            found.append(Place(self.source, ("source_embedding.tokens.weight",)))
        if not self.tied:
            found.append(Place(self.output, ("output.weight",)))
        return [*found, Place(BIAS, ("output.bias",))] if self.bias else found


def find_embeddings(config: Config, state: Tensors, problems: list[str]) -> Embeddings:
    """What is missing is tied to what is there; what is there twice is one if it is equal."""
    if config.share_encoder_decoder_embeddings:
        source = _first(state, ENCODER, SHARED, DECODER, HEAD)
        target = _first(state, DECODER, SHARED, ENCODER, HEAD)
    else:
        source, target = ENCODER, _first(state, DECODER, HEAD)
    output = HEAD if HEAD in state else target
    if HEAD not in state and not config.tie_word_embeddings:
        problems.append(f"{HEAD} is missing, although tie_word_embeddings is false")
    problems += [f"{name} is missing" for name in dict.fromkeys((source, target)) if name not in state]
    target = source if same(state, source, target) else target
    output = target if same(state, output, target) else output
    return Embeddings(source, target, output, bias=BIAS in state)


def shape_bias(state: StoredTensors) -> None:
    """Make the bias of the logits a vector; most models have it, but filled with zeros, and then it is left out."""
    if BIAS not in state:
        return
    bias = state[BIAS].squeeze(0) if state[BIAS].dim() == 2 else state[BIAS]
    state.change(BIAS, bias.clone() if bias.count_nonzero() else None)


def _first(state: Tensors, *names: str) -> str:
    return next((name for name in names if name in state), names[0])


def same(state: Tensors, first: str, second: str) -> bool:
    """Whether two names mean one tensor, be it saved twice."""
    if first == second or first not in state or second not in state:
        return first == second
    return torch.equal(state[first], state[second])
