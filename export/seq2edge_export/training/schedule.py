"""The learning rate of each update; needs nothing."""

import math

from seq2edge_export.training.settings import TrainingSettings


def learning_rate(step: int, settings: TrainingSettings) -> float:
    """Rise for the warm-up, fall with the inverse square root, and to zero in the cool-down; steps count from 1."""
    warmup = max(settings.warmup_steps, 1)
    rate = settings.learning_rate * min(step / warmup, math.sqrt(warmup / step))
    left = settings.max_steps + 1 - step
    return rate * min(1.0, left / (settings.cooldown_steps + 1)) if settings.cooldown_steps else rate
