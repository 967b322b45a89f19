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
    "manifest.json": "4a267288e1d5c33f6360aae13c5b46bf6fb1a35295832c089439fdb67cbc3c57",
    "decoder.onnx": "e67b0dfdce5b35a1ba995b9448bf87af999905570b3cba5dc2249700e5c10ad0",
    "encoder.onnx": "4a97cc08c16702bef5bb6d1757c2debcfafb62ffaa6b2a250a5c8baa6b7ecd29",
    "scorer.onnx": "e7aafcc0f1568a8887801d2cfca81d979bde267916bec0761187482aabac3f72",
    "tokenizer.model": "fefe0e16e5094e9000b6d5bf7f6c628ea79589df64c6ac513a17e40192306695",
    "weights.bin": "f3c6fe959b4d5c83bb0b197ebcfe71afa0c9edcbeafd3189a37715255c6dc03c",
}


def digest_of(content: bytes) -> str:
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def digest_of_file(path: Path) -> str:
    digest = blake2b(digest_size=DIGEST_BYTES)
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
