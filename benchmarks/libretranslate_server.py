"""Run LibreTranslate with an Argos package, in an environment of its own: python libretranslate_server.py PACKAGE PORT.

Its sentence splitter has to be downloaded. Here it returns every text as it is, which costs it nothing: the requests of
the benchmark are single sentences.
"""

import sys

import argostranslate.sbd
import argostranslate.translate
from argostranslate import package


class WholeText:
    """A sentence splitter that does not split."""

    def __init__(self, pkg: object) -> None:
        pass

    def split_sentences(self, text: str) -> list[str]:
        return [text]


if __name__ == "__main__":
    argostranslate.translate.MiniSBDSentencizer = WholeText
    if not package.get_installed_packages():
        package.install_from_path(sys.argv[1])
    from libretranslate.main import main

    sys.argv = ["libretranslate", "--host", "127.0.0.1", "--port", sys.argv[2], "--disable-web-ui"]
    main()
