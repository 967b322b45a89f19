"""CTranslate2 with a model that was written for it."""

import sys
import time
from pathlib import Path
from typing import Any

from seq2edge.bench.system import Answer, SystemPlan, peak_memory
from seq2edge.bench.workload import Sources
from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import UsageError

COMPUTE_TYPES = {"fp32": "float32", "int8": "int8"}
LONGEST_SOURCE = 2**20  # tokens: it would cut at 1,024
# Options of the search that it has not, with the values at which they do nothing.
NEUTRAL: dict[str, Any] = {"forced_bos_token_id": None, "forced_eos_token_id": None, "do_sample": False}


def open_peer(plan: SystemPlan) -> "CTranslate2System":
    return CTranslate2System(Path(plan.path), precision=plan.precision, threads=plan.threads)


class CTranslate2System:
    """A converted model with its own search."""

    def __init__(self, folder: Path, *, precision: str, threads: int) -> None:
        self.translator: Any = _ctranslate2().Translator(
            str(folder), compute_type=COMPUTE_TYPES[precision], inter_threads=1, intra_threads=threads
        )

    def translate(self, sources: Sources, options: GenerationOptions) -> Answer:
        arguments = search_arguments(options)
        started = time.perf_counter()
        pieces = [[str(token) for token in source] for source in sources]
        found = self.translator.translate_batch(pieces, max_batch_size=0, **arguments)
        outputs = [[int(piece) for piece in one.hypotheses[0]] for one in found]
        return Answer(outputs, time.perf_counter() - started)

    def peak_memory(self) -> int | None:
        return peak_memory()

    def close(self) -> None:
        self.translator.unload_model()


def search_arguments(options: GenerationOptions) -> dict[str, Any]:
    """Our options under its names; what it has not is in one error."""
    missing = [name for name, neutral in NEUTRAL.items() if getattr(options, name) != neutral]
    if missing:
        raise UsageError(f"CTranslate2 has no {', '.join(missing)}, which the search of this model uses")
    suppressed = [*map(list, options.bad_words_ids or ()), *([token] for token in options.suppress_tokens or ())]
    return {
        "beam_size": options.num_beams,
        "max_decoding_length": options.longest(1) - 1,
        "min_decoding_length": max(0, options.shortest(1) - 1),
        "max_input_length": LONGEST_SOURCE,
        "length_penalty": options.length_penalty,
        "repetition_penalty": options.repetition_penalty,
        "no_repeat_ngram_size": options.no_repeat_ngram_size,
        "suppress_sequences": [[str(token) for token in word] for word in suppressed] or None,
        "return_end_token": True,
    }


def _ctranslate2() -> Any:
    """The package, without torch: it imports that where it is there, which is memory that its users need not have."""
    if "torch" in sys.modules:
        import ctranslate2

        return ctranslate2
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        import ctranslate2
    finally:
        del sys.modules["torch"]
    return ctranslate2
