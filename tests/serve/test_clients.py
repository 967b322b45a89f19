"""Clients of LibreTranslate from PyPI, with our server."""

import pytest
from running_server import RunningServer

from seq2edge import Translator

TEXT = "Where is the station?"


def test_libretranslatepy_which_sends_forms(server: RunningServer, translator: Translator) -> None:
    module = pytest.importorskip("libretranslatepy")
    client = module.LibreTranslateAPI(server.url)
    assert client.translate(TEXT, "en", "pt") == translator(TEXT)
    assert client.languages()[0] == {"code": "en", "name": "English", "targets": ["pt"]}
    assert client.detect("Onde fica a estação de trem, por favor?")[0]["language"] == "pt"


def test_deep_translator_which_sends_query_parameters(server: RunningServer, translator: Translator) -> None:
    module = pytest.importorskip("deep_translator")
    client = module.LibreTranslator(source="en", target="pt", custom_url=f"{server.url}/", api_key="any")
    assert client.translate(TEXT) == translator(TEXT)
    assert client.translate_batch([TEXT, "Good morning."]) == translator([TEXT, "Good morning."])
    assert "estação" not in server.log
    assert "station" not in server.log


def test_translatehtml_with_the_remote_translation_of_argos(server: RunningServer, translator: Translator) -> None:
    pytest.importorskip("argostranslate")
    html = pytest.importorskip("translatehtml")
    from argostranslate.apis import LibreTranslateAPI
    from argostranslate.translate import Language, RemoteTranslation

    remote = RemoteTranslation(Language("en", "English"), Language("pt", "Portuguese"), LibreTranslateAPI(server.url))
    found = html.translate_html(remote, f"<div><p>{TEXT}</p></div>")
    assert str(found) == f"<div><p>{translator(TEXT)}</p></div>"
