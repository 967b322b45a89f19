"""What an adversary sends: slow and huge requests, wrong encodings, paths that lead elsewhere, guesses of keys."""

import json
import socket
import time
from pathlib import Path

import pytest
from running_server import RunningServer, running_server, wait_until

ASKED = {"q": "Good morning.", "source": "en", "target": "pt"}
JSON = {"Content-Type": "application/json"}
HEAD = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "


def connection(server: RunningServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def drip(client: socket.socket, content: bytes) -> bytes:
    """Send a byte at a time until the server answers or closes, and return its answer."""
    client.settimeout(0.5)
    for byte in content:
        try:
            client.sendall(bytes([byte]))
            return client.recv(1000)
        except TimeoutError:
            continue
        except OSError:
            return b""
    raise AssertionError("the server read all of it")


def test_a_request_that_comes_byte_by_byte_is_given_up(tmp_path: Path) -> None:
    with running_server(tmp_path, "--idle-limit", "2", "--time-limit", "4") as server, connection(server) as body:
        body.sendall(HEAD + b"500\r\n\r\n")
        assert drip(body, b" " * 60).startswith(b"HTTP/1.1 408")
        with connection(server) as head:
            head.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}"):
                answer += head.recv(1000)
            assert answer.startswith(b"HTTP/1.1 200")
            assert drip(head, b"GET /health HTTP/1.1\r\nX: " + b"x" * 60) == b""
        assert server.ask("/health")[0] == 200


@pytest.mark.parametrize("line", [b"GET /" + b"a" * 1_000_000, b"GET / HTTP/1.1\r\nX: " + b"a" * 1_000_000])
def test_a_huge_head_is_refused(server: RunningServer, line: bytes) -> None:
    with connection(server) as client:
        try:
            client.sendall(line)
            assert client.recv(100).startswith(b"HTTP/1.1 400")
        except ConnectionError:
            pass  # closed while we were sending
    assert server.ask("/health")[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(ASKED).encode("utf-16"),
        json.dumps({**ASKED, "q": "\ud800 house"}).encode(),
        json.dumps({**ASKED, "q": "\ud800", "target": "en"}).encode(),
        json.dumps({**ASKED, "q": "<b>\udfff</b> house", "format": "html"}).encode(),
        json.dumps({**ASKED, "q": "a\0b\x1b[31m\u202e\ufffe" + "\u0301" * 500}).encode(),
        json.dumps({**ASKED, "target": "\ud800"}).encode(),
        '{"q": "é", "source": "en", "target": "pt"}'.encode("latin-1"),
        b'{"q": "a", "source": "en", "target": "pt", "alternatives": ' + b"9" * 5000 + b"}",
        b'{"q": "a", "source": "en", "target": "pt", "alternatives": 1e999}',
        b"\x1f\x8b\x08\x00",
        b"\xef\xbb\xbf{}",
    ],
)
def test_wrong_encodings_are_answered_or_refused(server: RunningServer, body: bytes) -> None:
    status, answer = server.ask("/translate", body, headers=JSON)
    assert status in (200, 400), answer
    assert "unexpected" not in server.log


@pytest.mark.parametrize("charset", ["utf-16", "punycode", "idna", "unicode_escape", "nothing"])
def test_forms_in_other_encodings_are_refused(server: RunningServer, charset: str) -> None:
    headers = {"Content-Type": f"multipart/form-data; boundary=x; charset={charset}"}
    body = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\na-\\ud800\r\n--x--\r\n'
    for path in ("/translate", "/translate_file"):
        assert server.ask(path, body, headers=headers) == (400, {"error": "Invalid request: send the form in UTF-8"})


@pytest.mark.parametrize("value", ["1e999", "-1e999", "1e-999", "9" * 400, '"\\ud800"', "[[[]]]", "{}", "null", "true"])
def test_absurd_values_of_options_are_answered_or_refused(server: RunningServer, value: str) -> None:
    for name in ("length_penalty", "max_new_tokens", "bad_words_ids", "temperature", "seed", "long", "prefix", "model"):
        body = f'{{"text": "a", "num_beams": 2, "{name}": {value}}}'.encode()
        status, answer = server.ask("/v1/translate", body, headers=JSON)
        assert status in (200, 400), (name, answer)
    assert "unexpected" not in server.log


@pytest.mark.parametrize(
    "path",
    [
        *("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/page.js%00.html", "/page/../app.py"),
        *("/..%2fapp.py", "/download_file/..%2f..%2fetc%2fpasswd", "/download_file/", "/index.html/../app.py", "/%ff"),
    ],
)
def test_no_path_leads_to_other_files(server: RunningServer, path: str) -> None:
    status, headers, body = server.answer(path)
    assert status == 404
    assert list(json.loads(body)) == ["error"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "name", ["../../etc/x.html", "/etc/passwd.html", "a\\..\\b.html", 'x"; y="z.html', ".html.html"]
)
def test_the_name_of_a_file_is_not_used(server: RunningServer, name: str) -> None:
    script = "<script>alert(1)</script>"
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    parts = [
        '--x\r\nContent-Disposition: form-data; name="source"\r\n\r\nen\r\n',
        '--x\r\nContent-Disposition: form-data; name="target"\r\n\r\npt\r\n',
        f'--x\r\nContent-Disposition: form-data; name="file"; filename="{escaped}"\r\n\r\n{script}\r\n--x--\r\n',
    ]
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    status, answer = server.ask("/translate_file", "".join(parts).encode(), headers=headers)
    assert status == 200, answer
    _, headers, body = server.answer(answer["translatedFileUrl"].removeprefix(server.url))
    assert body.decode() == script
    assert headers["content-type"].startswith("text/plain")  # and so no browser runs it
    assert headers["content-disposition"] == "attachment"
    assert "passwd" not in answer["translatedFileUrl"]


def test_empty_texts_count_as_well(server: RunningServer) -> None:
    for path, name in (("/translate", "q"), ("/v1/translate", "text")):
        asked = {"source": "en", "target": "pt"} if name == "q" else {}
        status, answer = server.ask(path, {**asked, name: [""] * 300_000})
        assert (status, answer) == (413, {"error": "the text has 300000 characters, but a request may have 200000"})


def test_guesses_of_keys_are_counted_and_do_not_lock_out_others(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("right\n", encoding="utf-8")
    with running_server(tmp_path / "server", "--api-keys", str(tmp_path / "keys")) as server:
        statuses = [server.ask("/detect", {"q": "a", "api_key": f"guess {number}"})[0] for number in range(70)]
        assert set(statuses[:60]) == {403}
        assert 429 in statuses[60:]
        assert server.ask("/translate", {**ASKED, "api_key": "right"})[0] == 200


def test_pages_that_may_use_the_api_can_read_its_errors(tmp_path: Path) -> None:
    friend = {"Origin": "http://friend.example"}
    with running_server(tmp_path, "--cors-origin", "http://friend.example") as server:
        status, headers, _ = server.answer("/translate", {"q": ""}, headers=friend)
        assert (status, headers["access-control-allow-origin"]) == (400, "http://friend.example")
        assert "access-control-allow-credentials" not in headers
        for origin in ("http://friend.example.evil", "null", "http://FRIEND.example:80"):
            _, headers, _ = server.answer("/health", headers={"Origin": origin})
            assert "access-control-allow-origin" not in headers


def test_a_client_that_sends_and_ends_is_gone(server: RunningServer) -> None:
    """Half-closed connections and clients that left look the same, and the work of the latter is dropped."""
    body = json.dumps(ASKED).encode()
    with connection(server) as client:
        client.sendall(HEAD + f"{len(body)}\r\n\r\n".encode() + body)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b""
    assert server.ask("/translate", ASKED)[0] == 200
    assert "unexpected" not in server.log


def test_a_body_that_was_promised_is_not_waited_for_without_end(tmp_path: Path) -> None:
    """The parameters are in the query, so the answer could come without the body."""
    text = "The+red+house+is+old." * 4000
    head = f"POST /translate?q={text[:60_000]}&source=en&target=pt HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
    with running_server(tmp_path, "--idle-limit", "1") as server, connection(server) as client:
        client.sendall(head.encode())
        assert client.recv(100).startswith(b"HTTP/1.1 408")


def test_a_stream_that_nobody_reads_ends(tmp_path: Path) -> None:
    with running_server(tmp_path, "--time-limit", "2", "--max-waiting", "1") as server:
        wait_until(lambda: server.ask("/translate", ASKED)[0] == 200)  # a slow machine needs longer to load the model
        body = json.dumps({"text": "The red house is old. " * 3000}).encode()
        with connection(server) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            client.sendall(HEAD.replace(b"/translate", b"/v1/stream") + f"{len(body)}\r\n\r\n".encode() + body)
            wait_until(lambda: server.metric("seq2edge_waiting_requests"))
            status, headers, answer = server.answer("/v1/stream", {"text": "The house."})
            assert (status, headers["retry-after"], headers["content-type"]) == (503, "1", "application/json")
            assert json.loads(answer) == {"error": "1 requests are waiting already; try again later"}
            wait_until(lambda: not server.metric("seq2edge_waiting_requests"))
        assert server.ask("/translate", ASKED)[0] == 200
        assert "unexpected" not in server.log
        assert "Traceback" not in server.log


def test_a_client_that_does_not_read_does_not_hold_up_others(server: RunningServer) -> None:
    body = json.dumps({**ASKED, "q": ["Good morning."] * 2000}).encode()
    with connection(server) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        client.sendall((HEAD + f"{len(body)}\r\n\r\n".encode() + body) * 3)
        time.sleep(0.2)
        assert server.ask("/translate", ASKED)[0] == 200
