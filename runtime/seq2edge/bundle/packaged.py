"""Recognize the bundle that comes with the package, which was vetted when it was put there.

``make default-digest`` vets the bundle and writes the digests of its files here. A bundle with other digests is vetted
when it is loaded, so outdated ones only cost time.

The digests are BLAKE2b, directly from the module that ``hashlib`` has it from: ``hashlib`` also loads OpenSSL, which
takes 3 MB and as long as parsing the manifest, and its SHA-256 is slower without special instructions.
"""

from pathlib import Path

try:
    from _blake2 import blake2b
except ImportError:  # another Python than CPython
    from hashlib import blake2b

DIGEST_BYTES = 32
CHUNK = 2**18  # bytes
TOKENIZER = "tokenizer.model"
DIGESTS = {
    "manifest.json": "c20420a102c989556566967cee50c243b7adaef06534f9135ab66898ff220431",
    "decoder.onnx": "58e64b11208e1e28051ecdd5c64f741afaa9b71ae9573b9a31a1a376fee43f67",
    "encoder.onnx": "f49b49b2f7595111aa452ca30318b66b606b240d87ba7865b4522cb0d3b0ba50",
    "scorer.onnx": "ec8733347103fc87acb8898790c84a835c72a0c76f192db46d240c0fd510e48a",
    "tokenizer.model": "fefe0e16e5094e9000b6d5bf7f6c628ea79589df64c6ac513a17e40192306695",
    "weights.bin": "61c7decf03c9a9cc15ad915abeb7990e12416b84262cb7ee2413d033f062e851",
}


def digest_of(content: bytes) -> str:
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def digest_of_file(path: Path) -> str:
    digest = blake2b(digest_size=DIGEST_BYTES)
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
