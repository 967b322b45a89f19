"""One thread for PyTorch, since tiny models crawl on a busy machine otherwise; and Ctrl-C works for all processes.

A shell that starts the tests in the background lets them ignore Ctrl-C, and so would every process that they interrupt.
"""

import signal
from contextlib import suppress

with suppress(ValueError):  # not the main thread
    signal.signal(signal.SIGINT, signal.default_int_handler)
with suppress(ModuleNotFoundError):  # the runtime's tests also pass without it
    import torch

    torch.set_num_threads(1)
