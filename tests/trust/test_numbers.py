"""What comes out depends on the text alone: not on batch mates, order, earlier calls or workers; NaN is named."""

from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest
from hostile_bundle import copy_bundle, rehash

from seq2edge import Translator
from seq2edge.bundle import tensor_names
from seq2edge.errors import NotANumberError

pytestmark = pytest.mark.trust
SENTENCE = "the old man a small dog our teacher nobody sees finds paints forgets carries a red house two green apples"
KINDS = ["ort-fp32", "ort-int8", "ort-int4", "portable-fp32"]


def text_of(chance: Random, longest: int) -> str:
    return " ".join(chance.choice(SENTENCE.split()) for _ in range(chance.randint(1, longest)))


def spoken(translator: Translator, texts: list[str], num_beams: int) -> list[tuple[int, ...]]:
    return [one.tokens for one in translator.translate(texts, num_beams=num_beams, max_new_tokens=12)]


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_results_do_not_depend_on_mates_order_earlier_calls_or_workers(
    kind: str, num_beams: int, bundles: Path
) -> None:
    chance = Random(4)
    texts = [text_of(chance, 30) for _ in range(40)]
    with Translator(bundles / kind, threads=1) as one, Translator(bundles / kind, threads=1, workers=3) as three:
        wanted = [tokens for text in texts for tokens in spoken(one, [text], num_beams)]
        assert spoken(one, texts, num_beams) == wanted
        assert spoken(one, texts, num_beams) == wanted  # once more
        assert spoken(one, texts[::-1], num_beams)[::-1] == wanted
        assert spoken(three, texts, num_beams) == wanted
        for _ in range(5):
            some = chance.sample(range(len(texts)), 7)
            assert spoken(one, [texts[place] for place in some], num_beams) == [wanted[place] for place in some]


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize(("number", "word"), [(np.nan, "NaN"), (np.inf, "NaN|infinity")])
def test_numbers_that_are_none_are_named(
    number: float, word: str, num_beams: int, bundles: Path, tmp_path: Path
) -> None:
    folder = copy_bundle(tmp_path / "bundle", bundles / "ort-fp32")
    graph = onnx.load(folder / tensor_names.DECODER, load_external_data=False).graph
    weights = bytearray((folder / tensor_names.WEIGHTS).read_bytes())
    norms = [one for one in graph.initializer if "norm" in one.name and one.external_data and one.data_type == 1]
    inline = [one for one in graph.initializer if "norm" in one.name and not one.external_data and one.data_type == 1]
    if norms:
        place = {entry.key: int(entry.value) for entry in norms[-1].external_data if entry.key != "location"}
        weights[place["offset"] : place["offset"] + 4] = np.float32(number).tobytes()
        (folder / tensor_names.WEIGHTS).write_bytes(weights)
    else:
        model = onnx.load(folder / tensor_names.DECODER, load_external_data=False)
        wanted = next(one for one in model.graph.initializer if one.name == inline[-1].name)
        values = np.frombuffer(wanted.raw_data, np.float32).copy()
        values[0] = number
        wanted.raw_data = values.tobytes()
        (folder / tensor_names.DECODER).write_bytes(model.SerializeToString())
    rehash(folder)
    with Translator(folder, threads=1) as translator, pytest.raises(NotANumberError, match=word):
        translator.translate(["nobody sees a red house"], num_beams=num_beams)
