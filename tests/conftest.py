"""One thread for PyTorch: the models are tiny, and threads that wait for each other crawl on a busy machine."""

from contextlib import suppress

with suppress(ModuleNotFoundError):  # the runtime's tests also pass without it
    import torch

    torch.set_num_threads(1)
