"""The PyTorch model as a decoder for the runtime's search; needs torch."""

import torch
from seq2edge.search import Ids, Scores

from seq2edge_export.model import KeysValues, Transformer


class TorchStep:
    """Decode one step with the original model; the cache follows the rows that the search keeps."""

    def __init__(self, model: Transformer, source: torch.Tensor, source_mask: torch.Tensor) -> None:
        self.model = model
        self.source_mask = source_mask
        with torch.inference_mode():
            self.cross = model.encode(source, source_mask)
        self.past: list[KeysValues] | None = None

    @torch.inference_mode()
    def __call__(self, tokens: Ids, rows: Ids) -> Scores:
        device = self.source_mask.device
        chosen = torch.as_tensor(rows, device=device)
        self.cross = _select(self.cross, chosen)
        self.source_mask = self.source_mask[chosen]
        past = None if self.past is None else _select(self.past, chosen)
        decoded = self.model.decode(torch.as_tensor(tokens, device=device), self.cross, self.source_mask, past)
        self.past = decoded.present
        scores: Scores = decoded.logits[:, -1].float().log_softmax(dim=-1).cpu().numpy()
        return scores


def _select(layers: list[KeysValues], rows: torch.Tensor) -> list[KeysValues]:
    return [KeysValues(layer.keys[rows], layer.values[rows]) for layer in layers]
