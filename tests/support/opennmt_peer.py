"""Translate with OpenNMT-py or eole, in the environment where they are installed.

``python opennmt_peer.py onmt|eole JOB.json RESULTS.json``. A job has ``model``, ``options`` of the tokenization,
``texts``, and ``tokens``, the same texts as lists of tokens. The results have, by the number of beams, the translated
texts, the translated tokens, and the scores of the latter.
"""

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

BEAMS = (1, 4)
Results = tuple[list[str], list[float]]


def translate_onmt(model: str, sources: list[str], beams: int, options: dict[str, str]) -> Results:
    from onmt.bin.translate import _get_parser
    from onmt.inference_engine import InferenceEnginePY
    from onmt.utils.parse import ArgumentParser

    words = ["-model", model, "-src", "none", "-output", os.devnull, "-beam_size", str(beams), "-max_length_ratio", "0"]
    chosen = _get_parser().parse_args([*words, *(word for name in options for word in (f"-{name}", options[name]))])
    ArgumentParser.validate_translate_opts(chosen)
    ArgumentParser._get_all_transform_translate(chosen)
    ArgumentParser._validate_transforms_opts(chosen)
    ArgumentParser.validate_translate_opts_dynamic(chosen)
    scores, texts = InferenceEnginePY(chosen).infer_list(sources)
    return [best for best, *_ in texts], [float(best) for best, *_ in scores]


def translate_eole(model: str, sources: list[str], beams: int, options: dict[str, Any]) -> Results:
    from eole.config.run import PredictConfig
    from eole.inference_engine import InferenceEnginePY

    cut = {} if options else {"transforms": []}  # the folder names the tokenization
    config = PredictConfig(model_path=model, src="none", beam_size=beams, max_length_ratio=0, gpu_ranks=[], **cut)
    scores, _, texts = InferenceEnginePY(config).infer_list(sources)
    return [best for best, *_ in texts], [float(best) for best, *_ in scores]


def main(framework: str, job_file: str, results_file: str) -> None:
    warnings.simplefilter("ignore")
    translate = {"onmt": translate_onmt, "eole": translate_eole}[framework]
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    results = {}
    for beams in BEAMS:
        texts, _ = translate(job["model"], job["texts"], beams, job["options"])
        tokens, scores = translate(job["model"], [" ".join(tokens) for tokens in job["tokens"]], beams, {})
        results[beams] = {"texts": texts, "tokens": [text.split() for text in tokens], "scores": scores}
    Path(results_file).write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
