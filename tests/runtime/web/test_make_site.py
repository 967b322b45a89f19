"""What ``seq2edge web`` refuses, and how it gets its libraries; nothing here needs node or a browser."""

import socket
import struct
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from javascript import served

from seq2edge.bundle.bundle import DEFAULT_BUNDLE
from seq2edge.cli.main import main
from seq2edge.web import npm_packages
from seq2edge.web.npm_packages import ONNXRUNTIME, extract_files


def refusal(*arguments: object) -> str:
    result = CliRunner().invoke(main, ["web", *map(str, arguments)])
    assert result.exit_code == 2
    assert len(result.output.splitlines()) == 1
    return result.output.strip()


RESET = struct.pack("ii", 1, 0)  # close a connection without reading what is left


def test_a_browser_that_leaves_in_the_middle_of_a_file_is_no_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "large.bin").write_bytes(bytes(2**26))
    with served(tmp_path) as address:
        with socket.create_connection(("localhost", int(address.rstrip("/").rpartition(":")[2]))) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            client.sendall(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        time.sleep(0.5)  # until the server has noticed
    assert capfd.readouterr().err == ""


def test_a_folder_that_is_not_a_site_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    for force in ((), ("--force",)):
        assert "exists and is not a site; choose another folder" in refusal("-o", tmp_path, *force)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_an_existing_site_is_replaced_only_with_force(tmp_path: Path) -> None:
    (tmp_path / "site.json").write_text("{}")
    assert "exists; replace it with --force" in refusal("-o", tmp_path)


def test_two_bundles_of_one_name_are_refused(tmp_path: Path) -> None:
    assert "two bundles have the name 'en-pt'" in refusal(DEFAULT_BUNDLE, DEFAULT_BUNDLE, "-o", tmp_path / "site")


def test_a_folder_without_a_bundle_is_refused(tmp_path: Path) -> None:
    assert "is not a bundle" in refusal(tmp_path, "-o", tmp_path / "site")


def test_a_missing_npm_is_reported_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    message = refusal("-o", tmp_path / "site")
    assert "needs onnxruntime-web 1.30.0, which npm fetches, but npm was not found: install Node.js" in message
    assert list(tmp_path.iterdir()) == []


def test_a_kept_archive_is_used_without_npm_if_it_is_genuine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    package = replace(ONNXRUNTIME, files=("dist/a.mjs",))
    archive = npm_packages._cache_folder() / package.archive
    archive.parent.mkdir(parents=True)
    (tmp_path / "a.mjs").write_text("1")
    with tarfile.open(archive, "w:gz") as content:
        content.add(tmp_path / "a.mjs", "package/dist/a.mjs")
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(Exception, match="npm was not found"):
        extract_files(package, target)
    extract_files(replace(package, sha512=npm_packages._sha512(archive)), target)
    assert (target / "a.mjs").read_text() == "1"
