"""Vet the bundle that comes with the package, and write its digests into the code, so that loading it is fast.

python models/digest.py        after runtime/seq2edge/models was replaced (make default-digest)
"""

import re
from pathlib import Path

from seq2edge.bundle import packaged, tensor_names
from seq2edge.bundle.atomic_files import sha256_of
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle, vet_graphs
from seq2edge.text.vocabularies.sentencepiece_vetting import vet_sentencepiece


def vetted_digests(folder: Path = DEFAULT_BUNDLE) -> dict[str, str]:
    """Vet all graphs and vocabularies of a bundle, and return the constants of ``packaged.py``."""
    manifest = load_bundle(folder).manifest
    vet_graphs(folder, manifest)
    [tokenizer] = [folder / name for name in manifest.tokenizer.files]
    vet_sentencepiece(tokenizer.read_bytes(), tokenizer)
    return {"MANIFEST_SHA256": sha256_of(folder / tensor_names.MANIFEST), "TOKENIZER_SHA256": sha256_of(tokenizer)}


def main() -> None:
    path = Path(packaged.__file__)
    code = path.read_text(encoding="utf-8")
    for name, digest in vetted_digests().items():
        code = re.sub(rf'(?m)^{name} = ".*?"', f'{name} = "{digest}"', code)
    path.write_text(code, encoding="utf-8")


if __name__ == "__main__":
    main()
