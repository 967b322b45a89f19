"""The batches of each update, epoch after epoch, from wherever a run is; needs numpy."""

import numpy as np

from seq2edge_export.training.batches import Encoded, lengths_of, plan_epoch
from seq2edge_export.training.settings import TrainingSettings
from seq2edge_export.training.state import Progress


class Epochs:
    """Plans one epoch at a time; what comes next depends on nothing but the place in ``Progress``."""

    def __init__(self, encoded: list[Encoded], settings: TrainingSettings) -> None:
        self.encoded, self.settings = encoded, settings
        self.lengths = lengths_of(encoded)
        self.epoch, self.plan = 0, self._plan(0)

    def advance(self, progress: Progress) -> list[list[Encoded]]:
        """Move on by one update and give its batches; the last update of an epoch may have fewer."""
        if progress.position >= len(self.plan):
            progress.epoch, progress.position = progress.epoch + 1, 0
        if progress.epoch != self.epoch:
            self.epoch, self.plan = progress.epoch, self._plan(progress.epoch)
        batches = self.plan[progress.position : progress.position + self.settings.accumulate]
        progress.position += len(batches)
        progress.step += 1
        return [[self.encoded[row] for row in rows] for rows in batches]

    def done(self, progress: Progress) -> float:
        """How many epochs are behind; each has the same number of batches."""
        return progress.epoch + progress.position / len(self.plan)

    def _plan(self, epoch: int) -> list[np.ndarray]:
        settings = self.settings
        return plan_epoch(self.lengths, batch_tokens=settings.batch_tokens, seed=settings.seed, epoch=epoch)
