"""Run Hugging Face's ``generate`` on token ids, also as a process that serves a model of optimum-onnx.

The interpreter of another environment runs this file as a script, ``python generate.py FOLDER THREADS``, so it imports
nothing of this project. The process replies to each line of standard input: to {"sources": ..., "arguments": ...} with
{"outputs": ..., "seconds": ...}, and to "peak" with its peak memory in bytes.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

Rows = list[list[int]]


def translate(model: Any, sources: Rows, arguments: dict[str, Any]) -> Rows:
    """Return the best output of each source without the start token and padding."""
    pad, eos = model.generation_config.pad_token_id, model.generation_config.eos_token_id
    length = max(map(len, sources))
    ids = torch.tensor([source + [pad] * (length - len(source)) for source in sources])
    mask = torch.tensor([[1] * len(source) + [0] * (length - len(source)) for source in sources])
    with torch.inference_mode():
        outputs = model.generate(input_ids=ids, attention_mask=mask, **arguments)
    return [_until(eos, row[1:]) for row in outputs.tolist()]


def _until(eos: int, row: list[int]) -> list[int]:
    return row[: row.index(eos) + 1] if eos in row else row


def main() -> None:
    from optimum.onnxruntime import ORTModelForSeq2SeqLM
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder, threads = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(threads)
    replies, sys.stdout = sys.stdout, sys.stderr  # keep the output of libraries out of the replies
    model = ORTModelForSeq2SeqLM.from_pretrained(folder, session_options=_options(threads))
    print("ready", file=replies, flush=True)
    for line in sys.stdin:
        reply = _peak() if line.strip() == "peak" else _reply(model, json.loads(line))
        print(json.dumps(reply), file=replies, flush=True)


def _options(threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return options


def _reply(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    started = time.perf_counter()
    outputs = translate(model, request["sources"], request["arguments"])
    return {"outputs": outputs, "seconds": time.perf_counter() - started}


def _peak() -> int | None:
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii", errors="replace").splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)


if __name__ == "__main__":
    main()
