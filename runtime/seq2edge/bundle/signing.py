"""Sign the manifest of a bundle, and check the signature.

The manifest holds the hash of every other file, so its signature covers the whole bundle. It is an Ed25519 signature of
``CONTEXT`` followed by the bytes of ``manifest.json``, stored in base64 in ``manifest.sig``. Keys are PEM files, as
openssl writes them.
"""

import base64
import binascii
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from seq2edge.bundle import tensor_names
from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.errors import SignatureError, UsageError, imports_of_extras

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

CONTEXT = b"seq2edge manifest 1\0"  # a signature made for another purpose is not valid here
PUBLIC_SUFFIX = ".pub"  # appended to the name of the private key
MAX_SIGNATURE_BYTES = 1000  # far more than a signature takes
MAX_KEY_BYTES = 10_000
ADVICE = "make a pair of keys with  seq2edge sign --new-key FILE"


def sign_manifest(folder: Path, key: Path) -> Path:
    """Write the signature of a bundle that was checked before, and return its path."""
    private = _read_private(key)
    signature = private.sign(CONTEXT + (folder / tensor_names.MANIFEST).read_bytes())
    with replaced_file(folder / tensor_names.SIGNATURE) as new:
        new.write_bytes(base64.b64encode(signature) + b"\n")
    return folder / tensor_names.SIGNATURE


def check_signature(folder: Path, manifest: bytes, key: Path) -> None:
    """Check that a manifest is signed with the private key that belongs to a public key."""
    public = _read_public(key)
    from cryptography.exceptions import InvalidSignature

    path = folder / tensor_names.SIGNATURE
    if path.is_symlink() or not path.is_file():
        raise SignatureError(
            f"{folder} is not signed, but a signature by {key} is required; sign it with  seq2edge sign"
        )
    try:
        signature = base64.b64decode(_read_start(path, MAX_SIGNATURE_BYTES).strip(), validate=True)
        public.verify(signature, CONTEXT + manifest)
    except (InvalidSignature, binascii.Error, ValueError):
        raise SignatureError(
            f"{folder} was not signed with the key {key}, or was changed since; do not use it unless you know why"
        ) from None


def make_keys(private: Path) -> Path:
    """Write a new private key, readable only by its owner, and the public key next to it, whose path is returned."""
    serialization, ed25519 = _cryptography()
    public = private.with_name(private.name + PUBLIC_SUFFIX)
    for path in (private, public):
        if path.exists() or path.is_symlink():
            raise UsageError(f"{path} already exists, and keys are never overwritten; choose another name")
    key = ed25519.Ed25519PrivateKey.generate()
    encoding, secret_format = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(encoding, secret_format, serialization.NoEncryption())
    shared = key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
    created: list[Path] = []
    try:
        for path, content, mode in ((private, secret, 0o600), (public, shared, 0o644)):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                created.append(path)
                file.write(content)
    except BaseException:  # both keys or none
        for path in created:
            path.unlink()
        raise
    return public


def _read_private(path: Path) -> "Ed25519PrivateKey":
    serialization, ed25519 = _cryptography()
    content = _read_key(path)
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except Exception:  # the library raises several types
        raise UsageError(f"{path} is not a private key in PEM without a password; {ADVICE}") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise UsageError(f"{path} holds a key of another type than Ed25519; {ADVICE}")
    return cast("Ed25519PrivateKey", key)


def _read_public(path: Path) -> "Ed25519PublicKey":
    serialization, ed25519 = _cryptography()
    content = _read_key(path)
    try:
        key = serialization.load_pem_public_key(content)
    except Exception:  # the library raises several types
        raise UsageError(f"{path} is not a public key in PEM; {ADVICE}") from None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise UsageError(f"{path} holds a key of another type than Ed25519; {ADVICE}")
    return cast("Ed25519PublicKey", key)


def _read_key(path: Path) -> bytes:
    try:
        return _read_start(path, MAX_KEY_BYTES)
    except OSError as error:
        raise UsageError(f"the key {path} cannot be read: {error.strerror}") from None


def _read_start(path: Path, max_bytes: int) -> bytes:
    with path.open("rb") as file:
        return file.read(max_bytes)


def _cryptography() -> tuple[Any, Any]:
    with imports_of_extras():
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    return serialization, ed25519
