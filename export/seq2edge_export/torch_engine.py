"""The original PyTorch model as an engine for the runtime's search; needs torch."""

import torch

from seq2edge.onnx_engine import pad_sources
from seq2edge.search import Ids, Scores
from seq2edge_export.model import KeysValues, Transformer


class TorchEngine:
    """A model in PyTorch, decoding where its weights are."""

    def __init__(self, model: Transformer, *, pad: int) -> None:
        self.model = model
        self.pad = pad

    def start(self, sources: list[list[int]]) -> "TorchStep":
        device = self.model.output.weight.device
        source, mask = (torch.as_tensor(array, device=device) for array in pad_sources(sources, self.pad))
        return TorchStep(self.model, source, mask)


class TorchStep:
    """Decode one step with the original model; the cache follows the rows that the search keeps."""

    def __init__(self, model: Transformer, source: torch.Tensor, source_mask: torch.Tensor) -> None:
        self.model = model
        self.source_mask = source_mask
        with torch.inference_mode():
            self.cross = model.encode(source, source_mask)
        self.past: list[KeysValues] | None = None
        self.rows_per_sentence = 1

    @torch.inference_mode()
    def __call__(self, tokens: Ids, rows: Ids) -> Scores:  # (B, K, T), (B, K) -> (B, K, V)
        chosen = torch.as_tensor(rows, device=self.source_mask.device)
        self._keep_sentences(chosen[:, 0] // self.rows_per_sentence)
        past = None if self.past is None else _select(self.past, chosen.flatten())
        new = torch.as_tensor(tokens, device=chosen.device).flatten(0, 1)  # (B * K, T)
        decoded = self.model.decode(new, self.cross, self.source_mask, past)
        self.past, self.rows_per_sentence = decoded.present, rows.shape[1]
        logits: Scores = self.model.output(decoded.states[:, -1]).float().cpu().numpy()
        return logits.reshape(*rows.shape, -1)

    def _keep_sentences(self, kept: torch.Tensor) -> None:
        if len(kept) < len(self.source_mask):
            self.source_mask = self.source_mask[kept]
            self.cross = _select(self.cross, kept)


def _select(layers: list[KeysValues], rows: torch.Tensor) -> list[KeysValues]:
    return [KeysValues(layer.keys[rows], layer.values[rows]) for layer in layers]
