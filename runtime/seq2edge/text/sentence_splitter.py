"""Split a text into sentences, in any script.

Unambiguous marks such as 。 । ؟ always end a sentence. The marks . ! ? … end it before a space, unless a lowercase
letter follows (except after a whole word, or in a line without capitals) or the full stop belongs to the word before
it: an abbreviation of a major European language, an initial or a number. In doubt the sentence goes on.
"""

import re
from collections.abc import Iterator
from itertools import pairwise


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


# Words whose full stop never ends a sentence; those that may end one, such as etc., are left out.
ABBREVIATIONS = _words(
    # English
    "Mr Mrs Ms Mx Dr Prof St Mt Ft Rev Hon Pres Gov Sen Rep Gen Col Maj Capt Cmdr Lt Sgt Supt Messrs v vs viz cf",
    "approx Adm Brig Cpl Pvt Insp Amb e.g i.e eg ie",
    # German
    "Hr Hrn Fr Frl Ing Dipl Mag bzw ca vgl sog ggf evtl inkl exkl zzgl bspw insb z.B d.h u.a",
    "i.d.R z.T u.U m.E o.ä s.o s.u Mio Mrd Tsd geb gest Anm Hrsg bzgl lt",
    # French, Spanish, Portuguese, Italian
    "MM Mme Mmes Mlle Mlles Mgr p.ex Sr Sra Sras Srta Dra Dña Ud Uds Vd Vds p.ej Exmo Exma Sig Dott Avv Arch",
    # Dutch, Danish, Norwegian, Swedish
    "dhr mevr mw drs bijv bv d.w.z o.a m.b.t t.a.v f.eks bl.a dvs t.ex t.o.m m.a.o",
    # Polish, Czech, Slovak
    "np tzn tj tzw tzv např napr ul im św prof mgr inż dr resp",
    # Russian, Ukrainian
    "г гр ул им пл просп проф акад доц т.е т.н т.к см напр ім вул",
)
# Words whose full stop ends a sentence only if a word that starts sentences follows.
MAY_END = _words("Jr Sr Inc Ltd Corp Co Cos Bros Dept Univ Assn Ave Blvd Rd al")
# Words whose full stop does not end a sentence if a number follows.
BEFORE_NUMBERS = _words(
    "No Nos no nos Nr nr Av est c",
    "Art Arts art Abs Abb Abschn Bd Bde Kap Rn Rdnr Tab Ziff Fig Figs fig Eq Eqs Sec sec Sect Ch ch Vol",
    "vol p pp P Pp al ed núm núms pág págs cap n nn pag str č čl s стр рис табл гл п пп ст max min",
    "Jan Feb Mar Mär Apr Jun Jul Aug Sep Sept Oct Okt Nov Dec Dez janv févr avr juil sept oct nov déc",
)
# German nouns that follow an ordinal number with a full stop.
ORDINAL_NOUNS = _words(
    "Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember Jahrhundert",
    "Jahrhunderts Jahrtausend Weltkrieg Weltkriegs Geburtstag Mal Platz Stock Klasse Auflage Kapitel Tag Jahr Minute",
    "Runde Bundesliga Liga",
)
# German words before an ordinal number with a full stop.
BEFORE_ORDINALS = _words("der die das des dem den im am zum vom beim ins ab seit seiner ihrer sein ihr unser")
# Words that start a sentence much more often than they follow an abbreviation such as U.S. or p.m.
SENTENCE_STARTERS = _words(
    "The This That These Those There He She It We They You His Her Its Our Their My A An In On At As If But And Or So",
    "When While After Before However For From To What Who Why How Where Der Die Das Ein Eine Er Sie Es Wir Ich Ihr Und",
    "Aber Doch Im Am Als Wenn Nach Vor Mit Auf Für Le La Les Un Une Il Elle Ils Elles Nous Vous Ce Cette Mais Et En",
    "Dans Pour Je El Los Las Una Él Ella Ellos Pero Se Por Para Con O Os Um Uma Ele Ela Mas Lo Gli I Uno Ma De Het Een",
    "Hij Zij Wij Ik Maar Он Она Они Оно Мы Вы Я Это В На И Но А",
)

# Content of character classes of regular expressions.
QUOTES = "\"'“”„‟‘’‚‛«»‹›"  # which of them opens depends on the language
OPENING = QUOTES + r"(\[{¿¡（［｛「『【〈《〔｢—–\-"
CLOSING = QUOTES + r")\]}）］｝」』】〉》〕｣"
HAN_AND_KANA = (
    "々〆〇\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# Han, Kana and their punctuation, Thai, Lao, Myanmar, Khmer
UNSPACED = (
    "\u2e80-\u312f\u31a0-\u4dbf\u4e00-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff9f\U0001b000-\U0001b16f"
    "\U00020000-\U0003ffff\u0e00-\u0eff\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f\u1780-\u17ff\u19e0-\u19ff"
)

# Unicode's Sentence_Terminal, except marks that need a space after them.
FINAL = (
    "。｡！？"  # Chinese and Japanese
    "।॥"  # the languages of India
    "\u061d-\u061f\u06d4"  # Arabic, Persian, Urdu
    "։።፧፨။។៕"  # Armenian, Ethiopic, Myanmar, Khmer
    "\u0700-\u0702\u07f9\u166e\u1803\u1809\u1944\u1945\u1aa8-\u1aab\u1b5a\u1b5b\u1b5e\u1b5f\u1c3b\u1c3c\u1c7e\u1c7f"
    "\u2e2e\u2e3c\ua4ff\ua60e\ua60f\ua6f3\ua6f7\ua876\ua877\ua8ce\ua8cf\ua92f\ua9c8\ua9c9\uaa5d-\uaa5f\uaaf0\uaaf1\uabeb"
)
AMBIGUOUS = ".!?…‥‼‽⁇⁈⁉．"
EMOJI = "\u200d\u2600-\u27bf\ufe0f\U0001f300-\U0001faff"
GREEK_QUESTION = r"(?<=[\u0370-\u03ff\u1f00-\u1fff])[;\u037e]"

_ENDS = re.compile(
    rf"((?:[{FINAL}{AMBIGUOUS}]|{GREEK_QUESTION})+)((?:[{CLOSING}{EMOJI}]|\[\d{{1,3}}\]|\s(?:»|[{EMOJI}]+)(?=\s|$))*)"
)
_FINAL = f"[{FINAL}]"  # a large class takes milliseconds to compile, so only when it is needed
_CONTINUES = re.compile("[\u3041-\u309f,;:、，；：]")  # 「はい。」と言った
_FIRST_LETTER = re.compile(rf"\s+[{OPENING}\s]{{0,8}}(\w)")
_UNSPACED_QUESTION = f"[{HAN_AND_KANA}]"  # the same
_INITIAL = re.compile(r"(?:.*[.\-–’'])?[^\W\d_]")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")
_NUMBERING = re.compile(r"(?:\d{1,3}(?:\.\d{1,3})*|[IVXLC]+)")
_ROMAN = re.compile(r"[IVX]{2,}")
_WHOLE_WORD = re.compile(r"[^\W\d_]{5,}")  # few abbreviations are as long, and those are known
_NEXT_WORD = re.compile(r"\s+(\w+)(\.?)")
_MAX_WORD = 24  # characters; no abbreviation is longer
_MAX_QUOTE = 400  # characters in which the quotation mark before another one is sought
_LONG = _words("etc usw abbrev descr devel einschl zuzügl bezügl")  # before a lowercase letter
_LOWERCASE_ABBREVIATIONS = frozenset(word.lower() for word in (*ABBREVIATIONS, *MAY_END, *_LONG))


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text without the spaces around them; a line break also ends a sentence."""
    sentences = (line[start:end].strip() for line in text.splitlines() for start, end in pairwise(_boundaries(line)))
    return [sentence for sentence in sentences if sentence]


def _boundaries(line: str) -> list[int]:
    """Return the boundaries of the sentences of a line; punctuation without a word is part of a neighbour."""
    boundaries = [0, *_ends(line), len(line)]
    has_word = [any(map(str.isalnum, line[start:end])) for start, end in pairwise(boundaries)]
    if True not in has_word:
        return [0, len(line)]
    first = has_word.index(True) + 1
    return [0, *(boundaries[index] for index in range(first, len(has_word)) if has_word[index]), len(line)]


def _ends(line: str) -> Iterator[int]:
    start, has_capitals = 0, not line.islower()
    for match in _ENDS.finditer(line):
        end = _closing_end(line, start, match)
        if end < len(line) and _is_end(line, start, match, end, has_capitals=has_capitals):
            yield end
            start = end


def _closing_end(line: str, start: int, match: re.Match[str]) -> int:
    """Return the end of the quotes and brackets that close after the marks; in Chinese the next sentence may open."""
    marks, closing = match.groups()
    if not closing or not re.search(_FINAL, marks):
        return match.end()
    quotes = line.count('"', max(start, match.start() - _MAX_QUOTE), match.start())
    opening = re.search("[“‘]" if quotes % 2 else '[“‘"]', closing)  # in German, “ and ‘ close
    return match.start(2) + opening.start() if opening else match.end()


def _is_end(line: str, start: int, match: re.Match[str], end: int, *, has_capitals: bool) -> bool:
    """Return whether the sentence that began at ``start`` ends with the matched marks and closing quotes."""
    marks, closing = match[1], line[match.start(2) : end]
    if re.search(_FINAL, marks):
        return not (closing and _CONTINUES.match(line, end))
    if not line[end].isspace():
        return marks[-1] in "!?" and re.match(_UNSPACED_QUESTION, line[end]) is not None
    first = _FIRST_LETTER.match(line, end)
    if first and _is_lowercase(first[1]) and not _ends_before_lowercase(line, start, match, has_capitals=has_capitals):
        return False
    return marks != "." or bool(closing) or not _belongs_to_word(line, start, match.start(), first[1] if first else "")


def _ends_before_lowercase(line: str, start: int, match: re.Match[str], *, has_capitals: bool) -> bool:
    """Return whether a sentence may end before a lowercase letter: after a whole word, or if there are no capitals."""
    if not has_capitals:
        return ".." not in match[1] and "…" not in match[1]
    before = line[max(start, match.start() - _MAX_WORD) : match.start()].split()
    word = before[-1] if before else ""
    return match[0] == "." and bool(_WHOLE_WORD.fullmatch(word)) and word.islower()


def _belongs_to_word(line: str, start: int, stop: int, following: str) -> bool:
    """Return whether the full stop at ``stop`` belongs to an abbreviation, an initial or a number."""
    before = line[max(start, stop - _MAX_WORD) : stop].split()
    previous, word = before[-2] if len(before) > 1 else "", re.sub(f"^[{OPENING}]+", "", before[-1]) if before else ""
    next_word = _NEXT_WORD.match(line, stop + 1)
    after, dot = next_word.groups() if next_word else ("", "")
    if following.isdigit() and (word in BEFORE_NUMBERS or word.endswith("str") or _is_short_number(word)):
        return True
    if _NUMBERING.fullmatch(word) and len(before) == 1 and stop - start <= _MAX_WORD:  # 2. Wash your hands
        return True
    if _is_short_number(word) or _ROMAN.fullmatch(word):
        return after in ORDINAL_NOUNS or previous.lower() in BEFORE_ORDINALS
    if _is_abbreviation(word, previous, following):
        return not (word == "г" and previous.isdigit())  # в 1990 г. Он
    if word in MAY_END or _DOTTED.fullmatch(word):
        return after not in SENTENCE_STARTERS
    if _INITIAL.fullmatch(word):
        return word[-1].isupper() or (dot == "." and (len(after) == 1 or after == "Chr"))  # z. B. or v. Chr.
    return False


def _is_abbreviation(word: str, previous: str, following: str) -> bool:
    """Return whether a word, its last part after a hyphen, or its two halves as in d. h. are an abbreviation."""
    known = _LOWERCASE_ABBREVIATIONS if following.islower() else ABBREVIATIONS
    forms = [word, word[:1].lower() + word[1:], re.split("[-–]", word)[-1]]
    return not known.isdisjoint(forms) or (previous[-1:] == "." and previous + word in known)


def _is_short_number(word: str) -> bool:
    return word.isdigit() and len(word) <= 2


def _is_lowercase(letter: str) -> bool:
    """Return whether a letter is lowercase, except Georgian ones, which also start sentences."""
    return letter.islower() and not "\u10d0" <= letter <= "\u10ff"
