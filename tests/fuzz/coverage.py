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
    from seq2edge.bundle.bundle import read_graph, read_manifest
    from seq2edge.bundle.graph_vetting import vet_graph
    from seq2edge.bundle.onnx_file import read_onnx
    from seq2edge.engine.shortlist import read_shortlist
    from seq2edge.errors import Seq2EdgeError
    from seq2edge.text.vocabularies.plain import read_ids
    from seq2edge.text.vocabularies.sentencepiece_vetting import vet_sentencepiece
    from seq2edge.text.vocabularies.tokenizer_json import check_tokenizer_json
    from seq2edge_export.loaders.ctranslate2 import files as ctranslate2
    from seq2edge_export.loaders.marian import files as marian

FILE = Path(tempfile.mkdtemp(prefix="seq2edge-fuzz-")) / "file.json"
SAMPLES = Path(__file__).parents[2] / "build" / "fuzz" / "material"


READERS: dict[str, tuple[Callable[[Path], object], str]] = {  # with a sample to begin with
    "graph": (lambda path: vet_graph(path, read_graph(path), weights_bytes=10_000), "bundles/ort-fp32/encoder.onnx"),
    "onnx": (read_onnx, "bundles/ort-int4/encoder.onnx"),
    "manifest": (lambda path: read_manifest(path.read_bytes(), path), "bundles/ort-fp32/manifest.json"),
    "sentencepiece": (lambda path: vet_sentencepiece(path.read_bytes(), path), "vocabularies/sentencepiece/file.model"),
    "tokenizer": (check_tokenizer_json, "vocabularies/tokenizers/file.json"),
    "tokens": (read_ids, "vocabularies/bpe/file.json"),
    "ctranslate2": (ctranslate2.read_binary, "checkpoints/ctranslate2/model.bin"),
    "marian": (marian.read_binary, "checkpoints/marian-native/model.xx.intgemm.alphas.bin"),
    "shortlist": (read_shortlist, "bundles/ort-fp32-shortlist/shortlist.bin"),
    "npz": (marian.read_archive, "checkpoints/npz/model.npz"),
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
