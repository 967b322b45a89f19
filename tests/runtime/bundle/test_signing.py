"""A bundle with a valid signature is used; an unsigned or changed one, or one signed by another key, is refused."""

import json
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from seq2edge import Translator
from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
from seq2edge.bundle.signing import make_keys, sign_manifest
from seq2edge.cli.main import main
from seq2edge.errors import SignatureError, UsageError

pytest.importorskip("cryptography")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    private = tmp_path_factory.mktemp("keys") / "owner"
    return private, make_keys(private)


@pytest.fixture
def signed(tmp_path: Path, keys: tuple[Path, Path]) -> Path:
    folder = Path(shutil.copytree(DEFAULT_BUNDLE, tmp_path / "bundle"))
    sign_manifest(folder, keys[0])
    return folder


def test_a_signed_bundle_is_used(signed: Path, keys: tuple[Path, Path]) -> None:
    with Translator(signed, threads=1, require_signature=keys[1]) as translator:
        assert translator.translate(["Good morning."])[0].text.startswith("Bom dia")


def test_an_unsigned_bundle_is_refused_only_if_a_signature_is_required(keys: tuple[Path, Path]) -> None:
    load_bundle(DEFAULT_BUNDLE)
    with pytest.raises(SignatureError, match="is not signed"):
        load_bundle(DEFAULT_BUNDLE, require_signature=keys[1])


@pytest.mark.parametrize(
    "name", [tensor_names.ENCODER, tensor_names.DECODER, tensor_names.SCORER, tensor_names.WEIGHTS, "tokenizer.model"]
)
def test_a_changed_file_is_refused_even_if_hashes_should_not_be_checked(
    name: str, signed: Path, keys: tuple[Path, Path]
) -> None:
    content = bytearray((signed / name).read_bytes())
    content[len(content) // 2] ^= 1
    (signed / name).write_bytes(content)
    with pytest.raises(Exception, match="sha256 differs"):
        load_bundle(signed, require_signature=keys[1], check_hashes=False)


def test_a_changed_manifest_is_refused(signed: Path, keys: tuple[Path, Path]) -> None:
    path = signed / tensor_names.MANIFEST
    path.write_text(path.read_text(encoding="utf-8").replace('"license"', '"license" '), encoding="utf-8")
    assert json.loads(path.read_text(encoding="utf-8"))  # the content is the same
    with pytest.raises(SignatureError, match="was changed since"):
        load_bundle(signed, require_signature=keys[1])


def test_another_key_is_refused(signed: Path, tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match="not signed with the key"):
        load_bundle(signed, require_signature=make_keys(tmp_path / "other"))


@pytest.mark.parametrize("content", [b"", b"AAAA", b"\xff\xfe", b"A" * 5000])
def test_an_invalid_signature_is_refused(content: bytes, signed: Path, keys: tuple[Path, Path]) -> None:
    (signed / tensor_names.SIGNATURE).write_bytes(content)
    with pytest.raises(SignatureError):
        load_bundle(signed, require_signature=keys[1])


def test_a_signature_made_for_another_purpose_is_refused(signed: Path, keys: tuple[Path, Path]) -> None:
    """The same key has signed the manifest without the context."""
    import base64

    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(keys[0].read_bytes(), None)
    bare = key.sign((signed / tensor_names.MANIFEST).read_bytes())  # type: ignore[union-attr, call-arg]
    (signed / tensor_names.SIGNATURE).write_bytes(base64.b64encode(bare))
    with pytest.raises(SignatureError):
        load_bundle(signed, require_signature=keys[1])


def test_a_link_instead_of_the_signature_is_refused(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    (signed / tensor_names.SIGNATURE).rename(tmp_path / "elsewhere")
    (signed / tensor_names.SIGNATURE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SignatureError, match="is not signed"):
        load_bundle(signed, require_signature=keys[1])


def test_a_private_key_is_readable_only_by_its_owner_and_never_overwritten(keys: tuple[Path, Path]) -> None:
    assert stat.S_IMODE(keys[0].stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="never overwritten"):
        make_keys(keys[0])


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_a_file_that_is_not_a_key_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(UsageError, match="is not a public key"):
        load_bundle(DEFAULT_BUNDLE, require_signature=tmp_path / "key")


def test_a_key_of_another_type_is_refused(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import x25519

    public = x25519.X25519PrivateKey.generate().public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key").write_bytes(pem)
    with pytest.raises(UsageError, match="another type than Ed25519"):
        load_bundle(DEFAULT_BUNDLE, require_signature=tmp_path / "key")


def test_the_commands_sign_and_require_the_signature(tmp_path: Path) -> None:
    folder = shutil.copytree(DEFAULT_BUNDLE, tmp_path / "bundle")
    key, run = str(tmp_path / "owner"), CliRunner().invoke
    assert run(main, ["sign", "--new-key", key]).exit_code == 0
    required = ["--require-signature", f"{key}.pub"]
    for command in (["inspect", folder], ["translate", "-m", folder, "Good morning."], ["bench", "-m", folder]):
        done = run(main, [*map(str, command), *required])
        assert done.exit_code == 2
        assert "is not signed" in done.output
    assert run(main, ["sign", str(folder), "--key", key]).exit_code == 0
    done = run(main, ["translate", "-m", str(folder), "Good morning.", *required])
    assert done.exit_code == 0
    assert "Bom dia" in done.output
    assert run(main, ["inspect", str(folder)], env={"SEQ2EDGE_REQUIRE_SIGNATURE": f"{key}.pub"}).exit_code == 0


def test_an_empty_variable_does_not_disable_the_check() -> None:
    done = CliRunner().invoke(main, ["inspect", str(DEFAULT_BUNDLE)], env={"SEQ2EDGE_REQUIRE_SIGNATURE": ""})
    assert done.exit_code == 2
    assert "SEQ2EDGE_REQUIRE_SIGNATURE is empty" in done.output


@pytest.mark.parametrize("limit", [0, 115])  # bytes that a file may have; the private key has 119
def test_a_full_disk_leaves_no_key(tmp_path: Path, limit: int) -> None:
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); "
        "from seq2edge.cli.main import main; main()"
    )
    command = [sys.executable, "-B", "-c", code, "sign", "--new-key", tmp_path / "owner"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_bundle_is_not_signed(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    folder = shutil.copytree(DEFAULT_BUNDLE, tmp_path / "bundle")
    (folder / tensor_names.WEIGHTS).write_bytes(b"")
    done = CliRunner().invoke(main, ["sign", str(folder), "--key", str(keys[0])])
    assert done.exit_code == 2
    assert not (folder / tensor_names.SIGNATURE).exists()


def test_wrong_arguments_of_sign_give_a_one_line_error(keys: tuple[Path, Path]) -> None:
    for arguments in ([], [str(DEFAULT_BUNDLE)], [str(DEFAULT_BUNDLE), "--new-key", "x"]):
        done = CliRunner().invoke(main, ["sign", *arguments])
        assert done.exit_code == 2
        assert done.output.startswith("Error: ")


def test_a_missing_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['cryptography'] = None; from seq2edge.cli.main import main; "
        "main(['inspect', '--require-signature', 'x'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "seq2edge[sign]" in done.stderr
