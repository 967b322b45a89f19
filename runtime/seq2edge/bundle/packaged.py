"""Recognize the bundle that comes with the package, which was vetted when it was put there.

``make default-digest`` vets the bundle and writes its digests here. A bundle with other digests is vetted when it is
loaded, so outdated ones only cost time.
"""

import hashlib

# Of manifest.json, which has the digests of all other files, and of tokenizer.model, which is loaded separately.
MANIFEST_SHA256 = "76f6db16f1b6463ca28745396b2dda3e3f4f5252cd03348f12fb6264328f1f4c"
TOKENIZER_SHA256 = "b2c095658e39aebc79d09cde63ef65c696d00638007036b66b0fb4b36693c3d4"


def is_packaged_manifest(content: bytes) -> bool:
    return hashlib.sha256(content).hexdigest() == MANIFEST_SHA256


def is_packaged_tokenizer(content: bytes) -> bool:
    return hashlib.sha256(content).hexdigest() == TOKENIZER_SHA256
