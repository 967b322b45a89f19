"""The API as its documentation promises it: answers, errors, keys, files, headers and logs."""

import json
import re
import shutil
import signal
import socket
import time
import urllib.parse
from pathlib import Path

import pytest
from running_server import RunningServer, replace_bundle, running_server

from seq2edge import Translator
from seq2edge.bundle.bundle import DEFAULT_BUNDLE

TEXT = "The red house is old."
ASKED = {"q": TEXT, "source": "en", "target": "pt"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def test_json_forms_and_query_parameters_give_the_same(server: RunningServer, translator: Translator) -> None:
    query = urllib.parse.urlencode(ASKED)
    expected = (200, {"translatedText": translator(TEXT)})
    assert server.ask("/translate", ASKED) == expected
    assert server.ask("/translate", query.encode(), headers=FORM) == expected
    assert server.ask(f"/translate?{query}", b"") == expected


def test_a_list_is_answered_with_lists(server: RunningServer, translator: Translator) -> None:
    texts = [TEXT, "", "Good morning."]
    status, answer = server.ask("/translate", {**ASKED, "q": texts, "source": "auto", "alternatives": 2})
    assert status == 200
    assert answer["translatedText"] == translator(texts)
    assert [one["language"] for one in answer["detectedLanguage"]] == ["en"] * 3
    assert [len(one) for one in answer["alternatives"]] == [2, 0, 2]


def test_html_keeps_its_markup_around_the_words_it_belongs_to(server: RunningServer) -> None:
    html = "<p>The <b>red</b> house &amp; the <a href='x'>old tree</a></p><pre>The house</pre><script>red()</script>"
    _, answer = server.ask("/translate", {**ASKED, "q": html, "format": "html"})
    text = answer["translatedText"]
    assert "casa <b>vermelha</b>" in text
    assert "árvore" in text.split("<a href='x'>")[1].split("</a>")[0]
    assert text.endswith("<pre>The house</pre><script>red()</script>")


def test_several_html_texts_are_one_request(server: RunningServer, translator: Translator) -> None:
    texts = ["<p>The house\nis old.</p>", "", "<i>Good morning.</i>"]
    _, answer = server.ask("/translate", {**ASKED, "q": texts, "format": "html", "source": "auto"})
    assert answer["translatedText"] == [f"<p>{translator('The house is old.')}</p>", "", "<i>Bom dia.</i>"]
    long = ["<p>" + "x" * 100_001 + "</p>"] * 2
    status, answer = server.ask("/translate", {**ASKED, "q": long, "format": "html"})
    assert (status, answer) == (413, {"error": "the text has 200002 characters, but a request may have 200000"})


def test_a_text_in_the_target_language_stays(server: RunningServer) -> None:
    for form in ("text", "html"):
        same = {"q": "<b>x</b>", "source": "pt", "target": "pt", "format": form}
        assert server.ask("/translate", same) == (200, {"translatedText": "<b>x</b>"})


@pytest.mark.parametrize(
    ("change", "status", "sentence"),
    [
        ({"q": ""}, 400, "Invalid request: missing q parameter"),
        ({"q": 7}, 400, "Invalid request: q must be a text or a list of texts, and not empty"),
        ({"source": None}, 400, "Invalid request: missing source parameter"),
        ({"target": "xx"}, 400, "xx is not supported"),
        ({"source": "pt", "target": "en"}, 400, "pt is not supported"),
        ({"format": "pdf"}, 400, "Invalid request: format must be text or html"),
        ({"alternatives": -1}, 400, "Invalid request: alternatives must be a number"),
        ({"alternatives": 99}, 400, "alternatives is 99, but this server allows 15"),
        ({"q": "x" * 200_001}, 413, "the text has 200001 characters, but a request may have 200000"),
        ({"q": "x" * 4_100_000}, 413, "the request has more than 4000000 bytes"),
    ],
)
def test_a_wrong_request_is_answered_with_one_sentence(
    server: RunningServer, change: dict[str, object], status: int, sentence: str
) -> None:
    assert server.ask("/translate", {**ASKED, **change}) == (status, {"error": sentence})


def test_what_is_not_json_is_refused(server: RunningServer) -> None:
    headers = {"Content-Type": "application/json"}
    for body in (b"{", b"[]", b"\xff", b"[" * 100_000, b'{"q": NaN}'):
        status, answer = server.ask("/v1/translate", body, headers=headers)
        assert (status, list(answer)) == (400, ["error"])
    assert server.ask("/nothing")[0] == 404
    assert server.ask("/translate")[0] == 405


def test_every_option_and_result_of_the_translator(server: RunningServer, translator: Translator) -> None:
    options = {"num_beams": 5, "num_return_sequences": 3, "length_penalty": 0.6, "attention": "all"}
    status, answer = server.ask("/v1/translate", {"text": [TEXT, "Good morning."], **options})
    assert (status, answer["model"]) == (200, "en-pt")
    expected = [one.as_dict() for one in translator.translate([TEXT, "Good morning."], **options)]
    words = [one.pop("words") for one in answer["translations"]]
    assert answer["translations"] == json.loads(json.dumps(expected))
    text = answer["translations"][0]["text"]
    pairs = {text[slice(*one["target"])]: [TEXT[slice(*span)] for span in one["source"]] for one in words[0]}
    assert pairs["vermelha"] == ["red"]
    assert server.ask("/v1/translate", {"text": TEXT, "prefix": "Uma"})[1]["translations"][0]["text"].startswith("Uma")
    assert server.ask("/v1/translate", {"text": TEXT, "beams": 3})[0] == 400
    assert server.ask("/v1/translate", {"text": TEXT, "num_beams": "3"})[0] == 400


@pytest.mark.parametrize("options", [{}, {"num_beams": 1}])
def test_a_stream_ends_with_the_translation(
    server: RunningServer, translator: Translator, options: dict[str, int]
) -> None:
    text = f"{TEXT} Where is the station? I do not know."
    status, headers, body = server.answer("/v1/stream", {"text": text, **options})
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    events = [block.split("\n") for block in body.decode().strip().split("\n\n")]
    pieces = [json.loads(data[6:])["text"] for name, data in events if name == "event: text"]
    assert len(pieces) > 3 or not options  # greedy tokens are certain at once; beams may differ until the end
    assert "".join(pieces) == translator(text, **options)
    result = json.loads(events[-1][1][6:])["translation"]
    assert result == json.loads(json.dumps(translator.translate([text], **options)[0].as_dict()))


def test_scores_are_those_of_the_translator(server: RunningServer, translator: Translator) -> None:
    _, answer = server.ask("/v1/score", {"source": TEXT, "target": "A casa vermelha é velha."})
    [expected] = translator.score([TEXT], ["A casa vermelha é velha."])
    assert answer["scores"][0]["score"] == expected.score
    assert server.ask("/v1/score", {"source": [TEXT], "target": ["a", "b"]})[0] == 400


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "The house.\n\nGood morning.\n", "A casa.\n\nBom dia.\n"),
        ("a.html", "<h1>The house</h1>\n<code>the house</code>", "<h1>A casa</h1>\n<code>the house</code>"),
        ("a.md", "# The house\n\n```\nthe house\n```\n", "# A casa\n\n```\nthe house\n```\n"),
        (
            "a.srt",
            "1\n00:00:01,000 --> 00:00:02,000\nGood morning.\n",
            "1\n00:00:01,000 --> 00:00:02,000\nBom dia.\n",
        ),
    ],
)
def test_a_file_is_translated_and_can_be_downloaded(
    server: RunningServer, name: str, content: str, expected: str
) -> None:
    fields = {"source": "en", "target": "pt"}
    parts = [f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{fields[key]}\r\n' for key in fields]
    parts += [f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n{content}\r\n--x--\r\n']
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    status, answer = server.ask("/translate_file", "".join(parts).encode(), headers=headers)
    assert status == 200, answer
    path = answer["translatedFileUrl"].removeprefix(server.url)
    assert server.answer(path)[2].decode() == expected
    wrong = "".join(parts).replace(name, "a.exe").encode()
    assert server.ask("/translate_file", wrong, headers=headers)[0] == 400


def test_keys_and_their_rates(tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("first # no rate of its own\nsecond 2\n", encoding="utf-8")
    with running_server(tmp_path / "server", "--api-keys", str(keys)) as server:
        assert server.ask("/translate", ASKED)[0] == 403
        assert server.ask("/translate", {**ASKED, "api_key": "firs"}) == (403, {"error": "Invalid API key"})
        assert server.ask("/translate", {**ASKED, "api_key": "first"})[0] == 200
        assert server.ask("/v1/translate", {"text": TEXT}, headers={"Authorization": "Bearer first"})[0] == 200
        statuses = [server.ask("/translate", {**ASKED, "api_key": "second"})[0] for _ in range(3)]
        assert statuses == [200, 200, 429]
        _, headers, _ = server.answer("/translate", {**ASKED, "api_key": "second"})
        assert 1 <= int(headers["retry-after"]) <= 30
        assert server.ask("/v1/reload", b"")[0] == 403
        assert server.ask("/frontend/settings")[1]["keyRequired"] is True
        keys.write_text("third\n", encoding="utf-8")
        assert server.ask("/v1/reload", b"", headers={"X-Api-Key": "first"})[0] == 200
        assert server.ask("/translate", {**ASKED, "api_key": "first"})[0] == 403
        assert server.ask("/translate", {**ASKED, "api_key": "third"})[0] == 200
        assert "first" not in server.log


def test_no_text_of_a_user_is_in_the_log(server: RunningServer) -> None:
    secret = "Xylophonist"
    for path, content in (
        ("/translate", {**ASKED, "q": secret}),
        ("/translate", {**ASKED, "target": secret}),
        ("/v1/translate", {"text": secret, secret: 1}),
        ("/v1/stream", {"text": secret}),
        (f"/translate?q={secret}&source=en&target=pt", b""),
        (f"/{secret}", None),
        (f"/download_file/{secret}", None),
    ):
        server.answer(path, content)
    assert "POST /v1/stream 200" in server.log
    assert secret not in server.log
    assert secret not in server.answer("/metrics")[2].decode()


def test_answers_have_safe_headers_and_no_other_origin_may_read_them(server: RunningServer, tmp_path: Path) -> None:
    for path in ("/", "/health", "/nothing"):
        _, headers, _ = server.answer(path, headers={"Origin": "http://elsewhere.example"})
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers
    with running_server(tmp_path / "server", "--cors-origin", "http://friend.example") as open_server:
        for origin, allowed in (("http://friend.example", True), ("http://elsewhere.example", False)):
            _, headers, _ = open_server.answer("/health", headers={"Origin": origin})
            assert (headers.get("access-control-allow-origin") == origin) is allowed


def test_options_come_from_the_environment_too(tmp_path: Path) -> None:
    models = f"en:pt={DEFAULT_BUNDLE} fr:pt={DEFAULT_BUNDLE}"
    options = {"MAX_CHARACTERS": "30", "PAGE": "false", "MODELS": models}
    environment = {f"SEQ2EDGE_SERVE_{name}": value for name, value in options.items()}
    with running_server(tmp_path, **environment) as server:
        assert [one["code"] for one in server.ask("/languages")[1]] == ["en", "fr", "pt"]
        assert server.ask("/frontend/settings")[1]["charLimit"] == 30
        assert server.ask("/translate", {**ASKED, "q": "x" * 31})[0] == 413
        assert server.answer("/")[0] == 404


def test_a_replaced_bundle_is_picked_up_and_a_broken_one_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    shutil.copytree(DEFAULT_BUNDLE, folder)
    with running_server(tmp_path / "server", "-m", f"en:pt={folder}") as server:
        before = server.ask("/translate", ASKED)[1]
        assert server.ask("/v1/reload", b"")[1]["unchanged"] == ["bundle"]
        replace_bundle(folder, num_beams=1)
        assert server.ask("/v1/translate", {"text": TEXT, "attention": "all"})[0] == 200
        assert server.ask("/v1/reload", b"")[1]["reloaded"] == ["bundle"]
        [found] = server.ask("/v1/translate", {"text": TEXT})[1]["translations"]
        assert found["score"] == Translator(folder, threads=1).translate([TEXT])[0].score
        (folder / "manifest.json").write_text("{", encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        while "1 failed" not in server.log:
            time.sleep(0.05)
        assert server.ask("/translate", ASKED)[1].keys() == before.keys()


def test_bundles_are_loaded_when_they_are_used_and_the_oldest_is_let_go(tmp_path: Path) -> None:
    names = ["xa", "xb", "xc"]
    arguments = [part for name in names for part in ("-m", f"{name}:pt={DEFAULT_BUNDLE}")]
    with running_server(tmp_path, *arguments, "--max-loaded", "2") as server:
        assert [one["loaded"] for one in server.ask("/v1/models")[1]] == [False] * 3
        for name in [*names, "xa"]:
            assert server.ask("/translate", {**ASKED, "source": name})[0] == 200
        assert [one["loaded"] for one in server.ask("/v1/models")[1]] == [True, False, True]
        assert server.metric("seq2edge_loaded_models") == 2


def test_every_metric_of_the_documentation_is_there(server: RunningServer) -> None:
    server.ask("/translate", ASKED)
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `((?:seq2edge|process)_\w+)", page, re.MULTILINE)
    assert len(named) > 6
    metrics = server.answer("/metrics")[2].decode()
    assert [name for name in named if name not in metrics] == []


def test_the_language_of_each_text_is_detected(tmp_path: Path) -> None:
    pytest.importorskip("py3langid")
    arguments = [part for name in ("en", "fr", "de") for part in ("-m", f"{name}:pt={DEFAULT_BUNDLE}")]
    texts = ["Good morning, how are you?", "Bonjour, comment allez-vous ?", "Guten Morgen, wie geht es Ihnen?"]
    page = f"<style>the of and to in is</style><script>var the = 'house of the'</script><p>{texts[2]}</p>"
    with running_server(tmp_path, *arguments) as server:
        asked = {"source": "auto", "target": "pt"}
        _, answer = server.ask("/translate", {**asked, "q": texts})
        assert [one["language"] for one in answer["detectedLanguage"]] == ["en", "fr", "de"]
        _, answer = server.ask("/translate", {**asked, "q": page, "format": "html"})
        assert answer["detectedLanguage"]["language"] == "de"
        _, answer = server.ask("/v1/translate", {"text": texts[1], "source_lang": "auto"})
        assert (answer["model"], answer["detected_language"]) == ("en-pt-2", "fr")
        status, _ = server.ask("/translate", {**asked, "q": ["Good"] * 50_001})
        assert status == 413


def test_a_wrong_setting_is_one_sentence(tmp_path: Path) -> None:
    import subprocess
    import sys

    for options, sentence in (
        (["--rate", "-1"], "--rate is -1, but must be at least 0"),
        (["-m", str(tmp_path)], f"{tmp_path} is not a bundle: it has no manifest.json"),
        (["--api-keys", str(tmp_path / "none")], "the file of API keys"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "seq2edge", "serve", "--port", "0", *options], capture_output=True, text=True
        )
        assert done.returncode == 2
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_port_in_use_is_one_sentence(server: RunningServer) -> None:
    import subprocess
    import sys

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "seq2edge", "serve", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "in use" in done.stderr
    assert "Traceback" not in done.stderr
