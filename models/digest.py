"""Vet the bundle that comes with the package, and write its digests into the code, so that loading it is fast.

python models/digest.py        after runtime/seq2edge/models was replaced (make default-digest)
"""

import re
from pathlib import Path

from seq2edge.bundle import packaged, tensor_names
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle, vet_graphs
from seq2edge.text.vocabularies.sentencepiece_vetting import vet_sentencepiece


def main() -> None:
    path, digests = Path(packaged.__file__), vetted_digests(DEFAULT_BUNDLE)
    table = "".join(f'    "{name}": "{digest}",\n' for name, digest in digests.items())
    code = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"(?s)(DIGESTS = {\n).*?(?=}\n)", rf"\g<1>{table}", code), encoding="utf-8")


def vetted_digests(folder: Path) -> dict[str, str]:
    """Vet all graphs and the tokenizer of a bundle, and return the digest of each file."""
    manifest = load_bundle(folder).manifest
    vet_graphs(folder, manifest)
    tokenizer = folder / packaged.TOKENIZER
    vet_sentencepiece(tokenizer.read_bytes(), tokenizer)
    return {name: packaged.digest_of_file(folder / name) for name in (tensor_names.MANIFEST, *sorted(manifest.files))}


if __name__ == "__main__":
    main()
