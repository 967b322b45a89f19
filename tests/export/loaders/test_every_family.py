"""Recognize, load, export and verify a small checkpoint of every family.

The tests of each family compare its models with the original framework.
"""

from collections.abc import Callable
from pathlib import Path

import ctranslate2_model
import fairseq_checkpoint
import hugging_face_models
import marian_model
import opennmt_model
import pytest
import t5_folder
import tiny_checkpoint
import tutorial_model

from seq2edge import Translator
from seq2edge.config.text import resolve_split
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import FAMILIES, detect, load_checkpoint
from seq2edge_export.source_model import TorchEngine
from seq2edge_export.verify import verify

TEXTS = ["the old man sees bread.", "nobody wants apples today."]


def ctranslate2(folder: Path) -> Path:
    model = ctranslate2_model.seeded(ctranslate2_model.opus_like())
    return ctranslate2_model.write_folder(folder, ctranslate2_model.written(model, "int8"))


def fairseq(folder: Path) -> Path:
    return fairseq_checkpoint.write_folder(folder, fairseq_checkpoint.settings_of())


def opennmt(folder: Path) -> Path:
    shape = opennmt_model.Shape()
    folder.mkdir()
    return opennmt_model.write_onmt(folder, opennmt_model.onmt_content(shape, opennmt_model.seeded(shape)))


def recipe(folder: Path) -> Path:
    folder.mkdir()
    return tutorial_model.save_with_recipe(folder, tutorial_model.seeded_model()).recipe


def hugging_face(write: Callable[[Path], object]) -> Callable[[Path], Path]:
    def written(folder: Path) -> Path:
        write(folder)
        return folder

    return written


WRITERS: dict[str, Callable[[Path], Path]] = {
    "bart": hugging_face(hugging_face_models.write_bart),
    "ctranslate2": ctranslate2,
    "fairseq": fairseq,
    "m2m100": hugging_face(hugging_face_models.write_nllb),
    "marian": hugging_face(hugging_face_models.write_marian),
    "marian-native": marian_model.write_folder,
    "mbart": hugging_face(hugging_face_models.write_mbart),
    "opennmt": opennmt,
    "pegasus": hugging_face(hugging_face_models.write_pegasus),
    "recipe": recipe,
    "t5": t5_folder.write_t5,
    "seq2edge": tiny_checkpoint.write_checkpoint,
}


def test_there_is_a_row_for_every_family() -> None:
    assert WRITERS.keys() == FAMILIES.keys()


def test_only_families_that_read_paragraphs_get_whole_texts() -> None:
    whole = {family for family in FAMILIES if resolve_split("auto", family) == "none"}
    assert whole == {"bart", "pegasus", "t5"}


@pytest.mark.parametrize("family", WRITERS)
def test_a_checkpoint_is_recognized_and_loaded(tmp_path: Path, family: str) -> None:
    path = WRITERS[family](tmp_path / "checkpoint")
    assert detect(path) == family
    checkpoint = load_checkpoint(path)
    assert isinstance(checkpoint, Checkpoint)
    assert checkpoint.family == family
    original = checkpoint.source_model()
    original.check()
    step = TorchEngine(original.graphs, pad=original.tokens.pad).start(original.tokenizer().encode(TEXTS))
    assert all(states.size for states in step.cross_states.values())


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["ort", "portable"])
@pytest.mark.parametrize("family", WRITERS)
def test_the_bundle_of_a_checkpoint_translates_as_the_source_model(tmp_path: Path, family: str, dialect: str) -> None:
    path = WRITERS[family](tmp_path / "checkpoint")
    bundle = export_bundle(path, tmp_path / "bundle", dialect=dialect, compare=False)  # type: ignore[arg-type]
    verdict = verify(bundle, load_checkpoint(path).source_model(), texts=TEXTS)
    assert verdict.passed, str(verdict)
    languages = bundle.manifest.languages
    target = {} if languages.target or not languages.codes else {"target_lang": next(iter(languages.codes))}
    assert len(Translator(bundle.folder, threads=1).translate(TEXTS, **target)) == len(TEXTS)
