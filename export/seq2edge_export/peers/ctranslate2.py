"""CTranslate2 as a peer."""

import sys
import time
from pathlib import Path
from typing import Any

from seq2edge.bench.system import PeerRequest, SystemPlan, TimedOutputs, peak_memory
from seq2edge.bench.workload import Sources
from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import UsageError
from seq2edge_export.peers.interface import folder_size, load_source_model

COMPUTE_TYPES = {"fp32": "float32", "int8": "int8"}
MAX_SOURCE_TOKENS = 2**20  # it would truncate at 1,024
# Search options that it lacks, with the values that turn them off.
NEUTRAL: dict[str, Any] = {"forced_bos_token_id": None, "forced_eos_token_id": None, "do_sample": False}


def prepare(request: PeerRequest) -> list[SystemPlan]:
    """Write a model folder for each precision."""
    from seq2edge_export.peers.ctranslate2_writer import write_model

    source_model, plans = load_source_model(request), []
    for precision in request.precisions:
        folder = request.folder / precision
        write_model(source_model, folder, precision=precision)
        plans.append(
            SystemPlan(
                name=f"ctranslate2 {precision}",
                kind="ctranslate2",
                module=__name__,
                path=str(folder),
                precision=precision,
                size=folder_size(folder),
                tool=f"ctranslate2 {_import_ctranslate2().__version__}",
            )
        )
    return plans


def open_peer(plan: SystemPlan) -> "CTranslate2System":
    return CTranslate2System(Path(plan.path), precision=plan.precision, threads=plan.threads)


class CTranslate2System:
    """A converted model with CTranslate2's own search."""

    def __init__(self, folder: Path, *, precision: str, threads: int) -> None:
        self.translator: Any = _import_ctranslate2().Translator(
            str(folder), compute_type=COMPUTE_TYPES[precision], inter_threads=1, intra_threads=threads
        )

    def translate(self, sources: Sources, options: GenerationOptions) -> TimedOutputs:
        arguments = search_arguments(options)
        started = time.perf_counter()
        tokens = [[str(token) for token in source] for source in sources]
        results = self.translator.translate_batch(tokens, max_batch_size=0, **arguments)
        outputs = [[int(token) for token in result.hypotheses[0]] for result in results]
        return TimedOutputs(outputs, time.perf_counter() - started)

    def peak_memory(self) -> int | None:
        return peak_memory()

    def close(self) -> None:
        self.translator.unload_model()


def search_arguments(options: GenerationOptions) -> dict[str, Any]:
    """Return the search options as arguments of ``translate_batch``; one error names all that it lacks."""
    missing = [name for name, neutral in NEUTRAL.items() if getattr(options, name) != neutral]
    if missing:
        raise UsageError(f"CTranslate2 has no {', '.join(missing)}, which the search of this model uses")
    suppressed = [*map(list, options.bad_words_ids or ()), *([token] for token in options.suppress_tokens or ())]
    return {
        "beam_size": options.num_beams,
        "max_decoding_length": options.longest(1) - 1,
        "min_decoding_length": max(0, options.shortest(1) - 1),
        "max_input_length": MAX_SOURCE_TOKENS,
        "length_penalty": options.length_penalty,
        "repetition_penalty": options.repetition_penalty,
        "no_repeat_ngram_size": options.no_repeat_ngram_size,
        "suppress_sequences": [[str(token) for token in word] for word in suppressed] or None,
        "return_end_token": True,
    }


def _import_ctranslate2() -> Any:
    """Import the package without torch, which it imports if installed but does not need to translate."""
    if "torch" in sys.modules:
        import ctranslate2

        return ctranslate2
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        import ctranslate2
    finally:
        del sys.modules["torch"]
    return ctranslate2
