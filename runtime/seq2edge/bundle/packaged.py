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
    "manifest.json": "e4e34ae433d759e325ec6475cc1ee54078fb2b9122f0217753decbbb2380376d",
    "decoder.onnx": "45f36832c6391f99a134f773d7e6aaf36a5c8ecfa24fb5f5dc850ae7fd5e3286",
    "encoder.onnx": "a2a8a5da6a7c5b56498f2a661368f184b9bd654bc8feb49ffb9326c72eb22156",
    "scorer.onnx": "0f12b4fa4dc4d48f68272db6bb7e0db6e9bd775dd7cc8e94c6ec560f203bf555",
    "tokenizer.model": "fefe0e16e5094e9000b6d5bf7f6c628ea79589df64c6ac513a17e40192306695",
    "weights.bin": "4f4d95a39a72a94cc62d76e846834414e503392e42c521a368cdeba9567fe343",
}


def digest_of(content: bytes) -> str:
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def digest_of_file(path: Path) -> str:
    digest = blake2b(digest_size=DIGEST_BYTES)
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
