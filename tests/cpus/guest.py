"""Run under emulation: translate with each bundle, alone and in a batch, and multiply integers; write the results."""

import json
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from seq2edge import Translator

TEXTS = [  # few, because emulation is slow; of different lengths, so that those of a batch are padded
    "Good morning.",
    "Where is the nearest train station?",
    "If it rains tomorrow, we will stay at home and read the books.",
    "The committee has not yet decided whether the old bridge, which was closed last year, will be repaired.",
]
BEAMS = {"fp32": (1, 4), "int8": (1, 4), "int4": (1,)}


def main(folder: Path, output: Path) -> None:
    bundles = {name: None if name == "int8" else folder / name for name in BEAMS}  # None: the default model
    results = {
        "texts": TEXTS,
        "machine": platform.machine(),
        "products": {path.stem: exact_product(path) for path in sorted((folder / "products").glob("*.onnx"))},
        "translations": {name: translations(bundle, BEAMS[name]) for name, bundle in bundles.items()},
    }
    output.write_text(json.dumps(results))


def exact_product(path: Path) -> bool:
    arrays = np.load(path.with_suffix(".npz"))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rows = arrays["rows"]
    (together,) = session.run(None, {"x": rows})
    alone = np.concatenate([session.run(None, {"x": row[None]})[0] for row in rows])  # may use another kernel
    return bool((together == arrays["exact"]).all() and (alone == arrays["exact"]).all())


def translations(bundle: Path | None, beams: tuple[int, ...]) -> dict[str, Any]:
    with Translator(bundle, threads=1) as translator:
        return {
            str(count): {
                "together": [plain(one) for one in translator.translate(TEXTS, num_beams=count)],
                "alone": [plain(one) for text in TEXTS for one in translator.translate([text], num_beams=count)],
            }
            for count in beams
        }


def plain(result: Any) -> dict[str, Any]:
    return {"tokens": result.tokens, "score": result.score, "token_scores": result.token_scores}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
