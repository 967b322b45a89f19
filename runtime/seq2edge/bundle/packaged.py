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
    "manifest.json": "117c2a276dfb3cbe6b198c8c13073117c84a8e86e6a837b58a64edad2fd18f36",
    "decoder.onnx": "47107013130dc856a2b34b6ffd6f87f3bcde9e6c7cf23ebf404127a302646a73",
    "encoder.onnx": "4b0f9041388a49f035b189c8fd48879ddd5abe23d923fb2dfbb030081e586f7a",
    "scorer.onnx": "9317749cf4dfd838357b5faf725b8ac23caec0bad758bcacdd56b27a3a4d9670",
    "tokenizer.model": "fefe0e16e5094e9000b6d5bf7f6c628ea79589df64c6ac513a17e40192306695",
    "weights.bin": "f2f2545c63111668f77b4a8d3f30afc6cc6d572e1c4129fb1884eeae20c10bb1",
}


def digest_of(content: bytes) -> str:
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def digest_of_file(path: Path) -> str:
    digest = blake2b(digest_size=DIGEST_BYTES)
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
