"""Fuzz one parser of our own with atheris, which looks for inputs that reach new code.

    python tests/fuzz/coverage.py graph -runs=100000 -max_len=4096

Everything behind the name goes to atheris. Anything but an answer or one of our errors ends the run, and atheris keeps
the input.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["seq2edge", "seq2edge_export"]):
    import seq2edge.bundle.bundle
    import seq2edge.bundle.graph_vetting
    import seq2edge.bundle.onnx_file
    import seq2edge.config.schema
    import seq2edge.engine.shortlist
    import seq2edge.text.vocabularies.plain
    import seq2edge.text.vocabularies.sentencepiece
    import seq2edge.text.vocabularies.tokenizer_json
    import seq2edge_export.loaders.ctranslate2.files
    import seq2edge_export.loaders.marian.files
    from seq2edge.errors import Seq2EdgeError

FILE = Path(tempfile.mkdtemp(prefix="seq2edge-fuzz-")) / "file.json"
SAMPLES = Path(__file__).parents[2] / "build" / "fuzz" / "material"


def read_manifest(path: Path) -> object:
    return seq2edge.bundle.read_manifest(path.read_bytes(), path)


READERS: dict[str, tuple[Callable[[Path], object], str]] = {  # with a sample to begin with
    "graph": (lambda path: seq2edge.vetting.vet_graph(path, weights_bytes=10_000), "bundles/ort-fp32/encoder.onnx"),
    "onnx": (seq2edge.onnx_file.read_onnx, "bundles/ort-int4/encoder.onnx"),
    "manifest": (read_manifest, "bundles/ort-fp32/manifest.json"),
    "sentencepiece": (
        seq2edge.vocabularies.sentencepiece_file.check_sentencepiece,
        "vocabularies/sentencepiece/file.model",
    ),
    "tokenizer": (seq2edge.vocabularies.tokenizer_json_file.check_tokenizer_json, "vocabularies/tokenizers/file.json"),
    "tokens": (seq2edge.vocabularies.token_list.read_ids, "vocabularies/bpe/file.json"),
    "ctranslate2": (seq2edge_export.ctranslate2.binary.read_binary, "checkpoints/ctranslate2/model.bin"),
    "marian": (seq2edge_export.marian.binary.read_binary, "checkpoints/marian-native/model.xx.intgemm.alphas.bin"),
    "shortlist": (seq2edge.shortlist.read_shortlist, "bundles/ort-fp32-shortlist/shortlist.bin"),
    "npz": (seq2edge_export.marian.archive.read_archive, "checkpoints/npz/model.npz"),
}


def main() -> None:
    name, *arguments = sys.argv[1:]
    read, sample = READERS[name]

    def one(data: bytes) -> None:
        FILE.write_bytes(data)
        try:
            read(FILE)
        except Seq2EdgeError:
            return

    corpus = FILE.parent / "corpus"
    corpus.mkdir()
    if (SAMPLES / sample).exists():
        (corpus / "sample").write_bytes((SAMPLES / sample).read_bytes())
    (corpus / "empty").write_bytes(json.dumps({}).encode())
    atheris.Setup([sys.argv[0], *arguments, str(corpus)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
