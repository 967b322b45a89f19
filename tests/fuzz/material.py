"""Small, sound bundles and checkpoints that the cases are made of; written once to build/fuzz, also by calling this."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "fuzz" / "material"
READY = "ready-6"  # another number when what is made here changes


def material() -> Path:
    """The folder with everything, made if need be; it appears when it is complete."""
    if not (FOLDER / READY).exists():
        sys.path.insert(0, str(ROOT / "tests" / "support"))
        made = FOLDER.with_name(f"{FOLDER.name}.{os.getpid()}")
        made.mkdir(parents=True)
        for make in (_bundles, _vocabularies, _checkpoints):
            make(made)
        (made / READY).touch()
        shutil.rmtree(FOLDER, ignore_errors=True)
        made.rename(FOLDER)
    return FOLDER


def _bundles(folder: Path) -> None:
    from tiny_checkpoint import SENTENCES, TINY, write_checkpoint

    from seq2edge_export.export import export_bundle
    from seq2edge_graphs.shortlist.bundle import AlignmentData, add_shortlist, from_alignments

    small = replace(TINY, encoder_layers=1, decoder_layers=1, width=16, heads=2, feed_forward=16)
    others = {
        "recurrent": replace(small, decoder_cell="ssru"),
        "relative": replace(small, positions="relative", norm="rms", gated=True, bias=False, activation="gelu"),
    }
    checkpoint = write_checkpoint(folder / "checkpoints" / "seq2edge", small)
    checkpoints = {name: write_checkpoint(folder / "others" / name, shape) for name, shape in others.items()}
    for name, source, precision, dialect in (  # another one among the bundles would change what every number means
        ("bundles/ort-fp32", checkpoint, "fp32", "ort"),
        ("bundles/ort-int8", checkpoint, "int8", "ort"),
        ("bundles/ort-int4", checkpoint, "int4", "ort"),
        ("bundles/portable-fp32", checkpoint, "fp32", "portable"),
        ("newer/ort-fp16", checkpoint, "fp16", "ort"),
        ("newer/portable-fp16-compute", checkpoint, "fp16-compute", "portable"),
        ("newer/ort-recurrent", checkpoints["recurrent"], "fp32", "ort"),
        ("newer/ort-relative", checkpoints["relative"], "int8", "ort"),
    ):
        export_bundle(source, folder / name, precision=precision, dialect=dialect, compare=False)
    pairs = folder / "pairs.tsv"
    pairs.write_text("".join(f"{text}\t{text}\n" for text in SENTENCES), encoding="utf-8")
    for name in ("ort-fp32", "ort-int8"):
        table = from_alignments(AlignmentData(pairs=pairs, best=4, frequent=8))
        add_shortlist(folder / "bundles" / name, folder / "bundles" / f"{name}-shortlist", table)


def _vocabularies(folder: Path) -> None:
    """Files for every kind of vocabulary, each in a folder of its name."""
    from hugging_face_models import sentences, train_sentencepiece
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer

    made = {kind: folder / "vocabularies" / kind for kind in ("sentencepiece", "tokenizers", "words", "bpe", "pieces")}
    for path in made.values():
        path.mkdir(parents=True)
    pieces = train_sentencepiece(sentences(), 320)
    (made["sentencepiece"] / "file.model").write_bytes(pieces)
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    trainer = BpeTrainer(vocab_size=300, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], show_progress=False)
    tokenizer.train_from_iterator(sentences(), trainer)
    tokenizer.save(str(made["tokenizers"] / "file.json"))
    words = ["<pad>", "<s>", "</s>", "<unk>", *sorted({word for text in sentences() for word in text.split()})][:200]
    (made["words"] / "file.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    letters = sorted({letter for text in sentences() for letter in text if letter.isalpha()})
    listed = ["<pad>", "<s>", "</s>", "<unk>", *letters, *(f"{letter}@@" for letter in letters), "th@@", "the"]
    (made["bpe"] / "file.json").write_text(json.dumps({token: i for i, token in enumerate(listed)}), encoding="utf-8")
    (made["bpe"] / "codes").write_text("#version: 0.2\nt h\nth e</w>\na n\n", encoding="utf-8")
    (made["pieces"] / "file.json").write_text(
        json.dumps(["<pad>", "<s>", "</s>", "<unk>", *words[4:]]), encoding="utf-8"
    )
    (made["pieces"] / "codes").write_bytes(pieces)


def _checkpoints(folder: Path) -> None:
    """One of each kind of file that the families read."""
    import ctranslate2_model
    import fairseq_checkpoint
    import hugging_face_models
    import marian_model
    import opennmt_model
    import torch
    from safetensors.torch import load_file
    from t5_folder import write_t5

    top = folder / "checkpoints"
    write: dict[str, Callable[[Path], object]] = {
        "ctranslate2": lambda path: ctranslate2_model.write_folder(
            path, ctranslate2_model.written(ctranslate2_model.seeded(ctranslate2_model.opus_like()))
        ),
        "marian": lambda path: hugging_face_models.write_marian(path),
        "bart": lambda path: hugging_face_models.write_bart(path),
        "t5": lambda path: write_t5(path),
        "fairseq": lambda path: fairseq_checkpoint.write_folder(path, fairseq_checkpoint.settings_of()),
        "marian-native": lambda path: marian_model.write_folder(path),
        "opennmt": lambda path: opennmt_model.write_eole(
            path, opennmt_model.Shape(), opennmt_model.seeded(opennmt_model.Shape())
        ),
    }
    for name, made in write.items():
        made(top / name)
    _pack(top / "ctranslate2", top / "argos" / "package.argosmodel")
    (top / "npz").mkdir()
    marian_model.write_npz(top / "npz" / "model.npz", marian_model.made())
    shutil.copyfile(top / "marian-native" / "vocab.xx.spm", top / "npz" / "vocab.spm")
    shape = opennmt_model.Shape()
    (top / "onmt").mkdir()
    opennmt_model.write_onmt(top / "onmt", opennmt_model.onmt_content(shape, opennmt_model.seeded(shape)))
    shutil.copytree(top / "marian", top / "marian-pickled")
    (top / "marian-pickled" / "model.safetensors").unlink()
    torch.save(load_file(top / "marian" / "model.safetensors"), top / "marian-pickled" / "pytorch_model.bin")


def _pack(model: Path, target: Path) -> None:
    target.parent.mkdir()
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for file in sorted(model.iterdir()):
            inner = "" if file.suffix == ".model" else "model/"
            archive.write(file, f"translate-en_de-1_0/{inner}{file.name}")
        archive.writestr("translate-en_de-1_0/metadata.json", json.dumps({"from_code": "en", "to_code": "de"}))


if __name__ == "__main__":
    material()
