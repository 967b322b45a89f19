"""Under load and abuse: right answers, fair turns, bounded queues, and ends that lose nothing."""

import json
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from running_server import RunningServer, replace_bundle, running_server, wait_until

from seq2edge import Translator
from seq2edge.bundle.bundle import DEFAULT_BUNDLE

WORDS = ("the", "old", "man", "small", "dog", "teacher", "sees", "paints", "red", "house", "two", "green", "apples")
OPTIONS: tuple[dict[str, object], ...] = (
    {},
    {"num_beams": 1},
    {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.6},
    {"do_sample": True, "num_beams": 1, "seed": 7, "top_k": 20},
    {"attention": "all"},
    {"num_beams": 2, "no_repeat_ngram_size": 2, "max_new_tokens": 9},
    {"repetition_penalty": 1.3, "prefix": "Uma"},
)
Connect = Callable[[RunningServer], socket.socket]
ASKED = {"q": "Good morning.", "source": "en", "target": "pt"}


def sentence(chance: Random, longest: int = 20) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, longest))).capitalize() + "."


def raw_request(body: bytes, *, length: int | None = None) -> bytes:
    head = "POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
    return head.encode() + str(len(body) if length is None else length).encode() + b"\r\n\r\n" + body


def connection(server: RunningServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


@pytest.fixture
def connect() -> Iterator[Callable[[RunningServer], socket.socket]]:
    """Open connections, which are closed after the test."""
    with ExitStack() as opened:
        yield lambda server: opened.enter_context(connection(server))


def test_answers_do_not_depend_on_who_else_asks_to_the_bit(server: RunningServer, translator: Translator) -> None:
    chance = Random(3)
    tasks = [
        ({"text": [sentence(chance) for _ in range(chance.randint(1, 4))]}, chance.choice(OPTIONS)) for _ in range(120)
    ]
    expected = []
    for task, options in tasks:
        direct = dict(options)
        prefix = str(direct.pop("prefix", ""))
        prefixes = [prefix] * len(task["text"]) if prefix else None
        found = [one.as_dict() for one in translator.translate(task["text"], prefixes=prefixes, **direct)]
        expected.append(json.loads(json.dumps(found)))

    def ask(number: int) -> None:
        task, options = tasks[number]
        status, answer = server.ask("/v1/translate", {**task, **options})
        for one in answer["translations"]:
            one.pop("words", None)
        assert (status, answer["translations"]) == (200, expected[number])

    before = server.metric("seq2edge_batch_sentences_count")
    with ThreadPoolExecutor(24) as clients:
        list(clients.map(ask, range(len(tasks))))
    batches = server.metric("seq2edge_batch_sentences_count") - before
    assert batches < sum(len(task["text"]) for task, _ in tasks) / 2, "hardly anything was merged"


def test_a_long_text_does_not_hold_up_a_short_one(
    server: RunningServer, translator: Translator, connect: Connect
) -> None:
    """Of 2,000 sentences most must still wait when the short text that came later is answered."""
    chance = Random(4)
    long = connect(server)
    long.sendall(raw_request(json.dumps({"text": [sentence(chance, 8) for _ in range(2000)]}).encode()))
    wait_until(lambda: server.metric("seq2edge_waiting_requests"))
    before = server.metric("seq2edge_batch_sentences_sum")
    assert server.ask("/translate", ASKED) == (200, {"translatedText": translator("Good morning.")})
    assert server.metric("seq2edge_batch_sentences_sum") - before < 500
    assert server.metric("seq2edge_waiting_requests") == 1
    long.close()
    wait_until(lambda: server.metric("seq2edge_waiting_requests") == 0)
    assert server.metric("seq2edge_batch_sentences_sum") - before < 1900, "the work of a client that left was done"


def test_a_full_queue_refuses_with_503(tmp_path: Path, connect: Connect) -> None:
    with running_server(tmp_path, "--max-waiting", "2") as server:
        server.ask("/translate", ASKED)
        body = json.dumps({"text": ["The house is red."] * 600}).encode()
        busy = [connect(server) for _ in range(2)]
        for one in busy:
            one.sendall(raw_request(body))
        wait_until(lambda: server.metric("seq2edge_waiting_requests") == 2)
        status, headers, answer = server.answer("/translate", ASKED)
        assert (status, headers["retry-after"]) == (503, "1")
        assert json.loads(answer) == {"error": "2 requests are waiting already; try again later"}
        for one in busy:
            one.close()
        wait_until(lambda: server.metric("seq2edge_waiting_requests") == 0)
        assert server.ask("/translate", ASKED)[0] == 200


def test_a_request_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    with running_server(tmp_path, "--time-limit", "2") as server:
        wait_until(lambda: server.ask("/translate", ASKED)[0] == 200)  # a slow machine needs longer to load the model
        status, answer = server.ask("/v1/translate", {"text": ["The house is red and old."] * 3000, "num_beams": 8})
        assert status == 503
        assert "longer" in answer["error"]
        wait_until(lambda: server.ask("/translate", ASKED)[0] == 200)


def test_silent_connections_and_cut_bodies_do_not_stop_it(tmp_path: Path, connect: Connect) -> None:
    with running_server(tmp_path, "--idle-limit", "5") as server:
        silent = [connect(server) for _ in range(2000)]
        half = connect(server)
        half.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Le")
        cut = connect(server)
        cut.sendall(raw_request(b'{"text": "The ho', length=500))
        gone = connect(server)
        gone.sendall(raw_request(b'{"text": "The ho', length=500))
        gone.close()
        assert server.ask("/translate", ASKED)[0] == 200
        assert cut.recv(1000).startswith(b"HTTP/1.1 408")
        assert half.recv(1000) == b""  # closed
        assert all(one.recv(10) == b"" for one in silent)
        assert server.ask("/translate", ASKED)[0] == 200
        assert "unexpected" not in server.log


def test_sigterm_finishes_what_was_begun_and_refuses_the_rest(tmp_path: Path, translator: Translator) -> None:
    texts = [f"The house number {number} is red." for number in range(300)]
    with running_server(tmp_path) as server, ThreadPoolExecutor(2) as clients:
        server.ask("/translate", ASKED)
        answer = clients.submit(server.ask, "/v1/translate", {"text": texts})
        stream = clients.submit(server.answer, "/v1/stream", {"text": " ".join(texts)})
        wait_until(lambda: server.metric("seq2edge_waiting_requests") == 2)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not accepts(server))
        assert server.process.poll() is None
        status, content = answer.result()
        assert status == 200
        assert [one["text"] for one in content["translations"]] == translator(texts)
        result = json.loads(stream.result()[2].decode().rpartition("data: ")[2])
        assert result["translation"]["text"] == translator(" ".join(texts))
        assert server.process.wait(60) == 0


def accepts(server: RunningServer) -> bool:
    try:
        connection(server).close()
    except OSError:
        return False
    return True


def test_kill_9_and_restart_leave_nothing_broken(tmp_path: Path, connect: Connect) -> None:
    with running_server(tmp_path / "first") as first:
        busy = connect(first)
        busy.sendall(raw_request(json.dumps({"text": ["The house is red."] * 500}).encode()))
        wait_until(lambda: first.metric("seq2edge_waiting_requests"))
        first.process.kill()
        first.process.wait()
        with running_server(tmp_path / "second", "--port", str(first.port)) as second:
            assert second.ask("/translate", ASKED)[0] == 200


def test_reloads_under_load_fail_no_request_and_mix_no_bundles(tmp_path: Path) -> None:
    """Each answer is that of one of the bundles, to the bit, and after a reload that of the new one."""
    folder, text = tmp_path / "bundle", "The old teacher of the house paints the red dog."
    shutil.copytree(DEFAULT_BUNDLE, folder)
    with running_server(tmp_path / "server", "-m", str(folder)) as server:
        stop, statuses, seen = threading.Event(), [], set()

        def ask() -> float:
            options = {"attention": "all"} if len(statuses) % 2 else {}
            status, answer = server.ask("/v1/translate", {"text": text, **options})
            statuses.append(status)
            return float(answer["translations"][0]["score"])

        def ask_on() -> None:
            while not stop.is_set():
                seen.add(ask())

        with ThreadPoolExecutor(4) as clients, ExitStack() as end:
            running = [clients.submit(ask_on) for _ in range(4)]
            end.callback(stop.set)
            known = {scored(folder, text)}
            for penalty in (0.3, 0.5, 0.7):
                replace_bundle(folder, length_penalty=penalty)
                assert server.ask("/v1/reload", b"")[1]["reloaded"] == ["bundle"]
                newest = scored(folder, text)
                assert newest not in known
                assert ask() == newest
                known.add(newest)
        for one in running:
            one.result()
        assert set(statuses) == {200}
        assert seen <= known


def scored(folder: Path, text: str) -> float:
    with Translator(folder, threads=1) as translator:
        return translator.translate([text])[0].score


@pytest.mark.parametrize("option", ["--merge", "--no-merge"])
def test_streams_and_other_requests_share_the_server(tmp_path: Path, translator: Translator, option: str) -> None:
    chance = Random(5)
    texts = [" ".join(sentence(chance) for _ in range(3)) for _ in range(12)]

    def stream(text: str) -> str:
        body = server.answer("/v1/stream", {"text": text})[2].decode()
        events = [block.split("\n") for block in body.strip().split("\n\n")]
        return "".join(json.loads(data[6:])["text"] for name, data in events if name == "event: text")

    def plain(text: str) -> str:
        return str(server.ask("/translate", {**ASKED, "q": text})[1]["translatedText"])

    with running_server(tmp_path, option, "--workers", "2") as server, ThreadPoolExecutor(8) as clients:
        streams, others = clients.map(stream, texts), clients.map(plain, texts)
        assert list(streams) == list(others) == translator(texts)
