"""Text is tokenized as by the tools of fairseq: BPE as in subword-nmt, words as in sacremoses."""

import io
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts_text import lines, sentences

from seq2edge.config.tokenizer import Moses, SpecialTokens, Tokenization
from seq2edge.errors import MissingExtraError
from seq2edge.results import Translation
from seq2edge.text.tokenizer import MosesTokenizer, Tokenizer, load_moses, load_tokenizer
from seq2edge.text.vocabularies.bpe import apply_merges
from seq2edge.translator import TextStream

TOKENS = SpecialTokens(bos=0, pad=1, eos=2, unk=3)
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
EDGE_CASES = [
    "It's a \"well-known\" fact, isn't it? (yes: 5 % & more) [no] <b>|</b>",
    "L'homme d'hier n'a « rien » dit.",
    "1.5 and 2,000 km/h -- or - so... Mr. Smith vs. U.S. law etc.",
    "V roce 2005 , 12 : 30 , 1 000 Kč .",
    "dogs' tails 'quoted' rock 'n' roll @-@ &apos; @@ foo@@ bar",
    "tab\there\u00a0and\u2003there\u3000\r\nnext \x1c line\u0085 end ",
    "",
    "   ",
]


def texts(count: int) -> list[str]:
    return [*EDGE_CASES, *lines(count), *sentences(count // 4)]


def learned_codes(count: int = 400) -> str:
    learn = pytest.importorskip("subword_nmt.learn_bpe")
    codes = io.StringIO()
    learn.learn_bpe(sentences(), codes, num_symbols=count)
    return codes.getvalue()


def reference_bpe(codes: str) -> Any:
    return pytest.importorskip("subword_nmt.apply_bpe").BPE(io.StringIO(codes))


def bpe_tokenizer(folder: Path, codes: str, tokens: list[str], **settings: Any) -> Tokenizer:
    (folder / "codes").write_text(codes, encoding="utf-8")
    (folder / "words").write_text("\n".join([*SPECIAL, *tokens]), encoding="utf-8")
    names = {"source": "words", "target": "words", "source_codes": "codes", "target_codes": "codes"}
    rules = Tokenization(kind="bpe", split="blanks", **names, **settings)
    return load_tokenizer(rules, TOKENS, {name: folder / name for name in rules.files})


def test_bpe_matches_subword_nmt(tmp_path: Path) -> None:
    codes = learned_codes()
    theirs = reference_bpe(codes)
    expected = [theirs.process_line(text).split() for text in texts(3000)]
    known = sorted({piece for pieces in expected for piece in pieces if random.Random(piece).random() < 0.9})
    tokenizer = bpe_tokenizer(tmp_path, codes, known)
    numbers = {token: number for number, token in enumerate([*SPECIAL, *known])}
    assert [tokenizer.source.tokenize(text) for text in texts(3000)] == expected
    assert tokenizer.encode(texts(3000)) == [[*(numbers.get(piece, 3) for piece in pieces), 2] for pieces in expected]
    for pieces in expected:
        ids = [numbers[piece] for piece in pieces if piece in numbers]
        text = " ".join(piece for piece in pieces if piece in numbers)
        assert tokenizer.decode([ids]) == [(text + " ").replace("@@ ", "").rstrip()]  # as fairseq does


def test_merges_in_any_order_match_subword_nmt() -> None:
    random_ = random.Random(1)
    for _ in range(300):
        pieces = ["a", "b", "a</w>", "b</w>"]
        merges = []
        for _ in range(random_.randint(1, 25)):
            pair = (random_.choice([piece for piece in pieces if "<" not in piece]), random_.choice(pieces))
            merges.append(pair)
            pieces.append("".join(pair))
        random_.shuffle(merges)
        theirs = reference_bpe("#version: 0.2\n" + "\n".join(map(" ".join, merges)) + "\n")
        ranks = {merge: rank for rank, merge in reversed(list(enumerate(merges)))}
        for _ in range(5):
            word = "".join(random_.choices("ab", k=random_.randint(2, 30)))
            merged = apply_merges([*word[:-1], word[-1] + "</w>"], ranks)
            assert "@@ ".join(merged).removesuffix("</w>") == theirs.segment(word), (merges, word)


def test_a_long_text_without_spaces_does_not_take_quadratic_time() -> None:
    ranks = {("a", "b"): 0, ("ab", "ab"): 1, ("b", "b"): 2, ("a", "a"): 3}
    word = random.Random(2).choices("ab", k=100_000)
    assert "".join(apply_merges(word, ranks)) == "".join(word)  # quadratic time would be minutes


@pytest.mark.parametrize("escape", [True, False])
@pytest.mark.parametrize(
    "languages", [("en", "de"), ("de", "fr"), ("fr", "cs"), ("ru", "en"), ("zh", "ja"), ("xx", "fi")]
)
def test_words_match_sacremoses(languages: tuple[str, str], escape: bool) -> None:
    package = pytest.importorskip("sacremoses")
    source, target = languages
    rules = Moses(source_language=source, target_language=target, dash_splits=escape, escape=escape)
    ours = load_moses(rules)
    tokenizer, detokenizer = package.MosesTokenizer(source), package.MosesDetokenizer(target)
    for text in texts(400):
        words = tokenizer.tokenize(text, aggressive_dash_splits=escape, return_str=True, escape=escape)
        assert ours.tokenize_source(text) == words
        assert ours.detokenize(words) == detokenizer.detokenize(words.split())


def test_moses_is_applied_before_bpe_and_after_decoding(tmp_path: Path) -> None:
    pytest.importorskip("sacremoses")
    tokens = ["well", "@-@", "known", "don", "&apos;t", "say", "&quot;", "yes", "."]
    codes = "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in _spelling_merges(tokens))
    moses = Moses(source_language="en", target_language="en")
    tokenizer = bpe_tokenizer(tmp_path, codes, tokens, moses=moses)
    text = 'well-known: don\'t say "yes".'
    assert tokenizer.source.tokenize("well @-@ known") == ["well", "@-@", "known"]
    ids = tokenizer.encode([text])[0]
    words = [tokenizer.source.piece(number) for number in ids]
    assert words == ["well", "@-@", "known", "<unk>", "don", "&apos;t", "say", "&quot;", "yes", "&quot;", ".", "</s>"]
    assert tokenizer.decode([[number for number in ids if number != 3]]) == ['well-known don\'t say "yes".']
    assert tokenizer.encode_target([text]) == [ids]


def _spelling_merges(words: list[str]) -> list[tuple[str, str]]:
    """Return merges that make each word one piece."""
    merges = []
    for word in words:
        letters = [*word[:-1], word[-1] + "</w>"]
        for index in range(1, len(letters)):
            merges.append(("".join(letters[:index]), letters[index]))
    return list(dict.fromkeys(merges))


@pytest.mark.parametrize("language", ["en", "fr", "de", "it", "fi", "cs", "zh"])
def test_streamed_text_of_moses_is_never_revised(language: str) -> None:
    pytest.importorskip("sacremoses")
    moses = load_moses(Moses(source_language=language, target_language=language))
    for text in texts(150):
        words = moses.tokenize_source(text).split()

        def grow(words: list[str] = words, moses: MosesTokenizer = moses) -> Any:
            for count in range(1, len(words) + 1):
                yield moses.detokenize_partial(" ".join(words[:count]))
            return Translation(text=moses.detokenize(" ".join(words)))

        stream = TextStream(grow())
        assert "".join(stream) == moses.detokenize(" ".join(words))


def test_without_sacremoses_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(MissingExtraError, match=r"this needs sacremoses, .* pip install 'seq2edge\[moses\]'"):
        load_moses(Moses(source_language="en", target_language="de"))


def test_plain_spaces_replaces_whitespace_with_one_space(tmp_path: Path) -> None:
    tokens = ["a", "b"]
    plain = bpe_tokenizer(tmp_path, "#version: 0.2\nx y\n", tokens, plain_spaces=True)
    assert plain.encode(["a\u00a0b\t a\n"]) == [[4, 5, 4, 2]]
    exact = bpe_tokenizer(tmp_path, "#version: 0.2\nx y\n", [*tokens, "a@@", "@@"])
    assert exact.encode(["a\u00a0b"]) == [[6, 7, 5, 2]]  # one word for subword-nmt, whose middle is empty for fairseq
