"""Words as the tokenizer of Moses cuts them, and text made of such words; needs sacremoses.

Its rules and lists of abbreviations are those of sacremoses, which fairseq uses too.
"""

from typing import Any

from seq2edge.errors import MissingExtraError
from seq2edge.tokenization import Moses

HELD_BACK = 2  # words at the end, to whose left what follows may still put or take a space
BY_THE_END = ("cs",)  # languages whose numbers are joined or not by how the whole text ends


class MosesWords:
    """Text to words with a space between them, and back."""

    def __init__(self, rules: Moses, package: Any) -> None:
        self.rules = rules
        self.source = package.MosesTokenizer(rules.source_language)
        self.target = package.MosesTokenizer(rules.target_language)
        self.detokenizer = package.MosesDetokenizer(rules.target_language)

    def cut_source(self, text: str) -> str:
        return self._cut(self.source, text)

    def cut_target(self, text: str) -> str:
        return self._cut(self.target, text)

    def join(self, words: str) -> str:
        text: str = self.detokenizer.detokenize(words.split())
        return text

    def join_so_far(self, words: str) -> str:
        """As much of a text as stays when more words come."""
        if self.rules.target_language in BY_THE_END:
            return ""
        return self.join(" ".join(words.split()[:-HELD_BACK]))

    def _cut(self, tokenizer: Any, text: str) -> str:
        words: str = tokenizer.tokenize(
            text, aggressive_dash_splits=self.rules.dash_splits, return_str=True, escape=self.rules.escape
        )
        return words


def load_moses(rules: Moses) -> MosesWords:
    try:
        import sacremoses
    except ModuleNotFoundError:
        raise MissingExtraError("sacremoses", "moses") from None
    return MosesWords(rules, sacremoses)
