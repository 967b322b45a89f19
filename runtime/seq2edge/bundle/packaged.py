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
    "manifest.json": "c30773f50e4b50452171de2f1376ca8f7d5c75b16d8836cdab8dda2aaca6d687",
    "decoder.onnx": "c2f48cc914e90d122d98665b65bf88d740160f0ab465e6f36e25e0088b3122fc",
    "encoder.onnx": "2c80b4a4e95d7c8e56e741f997c399ad9e68c76f5c227f9fca1932a89cc11012",
    "scorer.onnx": "da96788ae21ea87c88ea5a0294c183c959b96444a6fde1bcbecdcf3d6f7473f8",
    "tokenizer.model": "fefe0e16e5094e9000b6d5bf7f6c628ea79589df64c6ac513a17e40192306695",
    "weights.bin": "929e0b71bf320b31e48563785cdc9f46d0afebad0ffe3b66ac109a367c0fb65e",
}


def digest_of(content: bytes) -> str:
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def digest_of_file(path: Path) -> str:
    digest = blake2b(digest_size=DIGEST_BYTES)
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
