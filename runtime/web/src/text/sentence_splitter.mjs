// Split a text into sentences, in any script, exactly as runtime/seq2edge/text/sentence_splitter.py does.

import {
  DIGIT, LETTER, SPACE, WORD, countCharacters, hasAlphanumeric, isDigit, isLower, isSpace, isUpper, skipBack,
  splitLines, splitSpaces, strip,
} from "./unicode.mjs";

/** @param {string[]} lines */
const words = (...lines) => new Set(lines.flatMap(line => line.split(" ")));

// Words whose full stop never ends a sentence; those that may end one, such as etc., are left out.
const ABBREVIATIONS = words(
  // English
  "Mr Mrs Ms Mx Dr Prof St Mt Ft Rev Hon Pres Gov Sen Rep Gen Col Maj Capt Cmdr Lt Sgt Supt Messrs v vs viz cf",
  "approx Adm Brig Cpl Pvt Insp Amb e.g i.e eg ie",
  // German
  "Hr Hrn Fr Frl Ing Dipl Mag bzw ca vgl sog ggf evtl inkl exkl zzgl bspw insb z.B d.h u.a",
  "i.d.R z.T u.U m.E o.ä s.o s.u Mio Mrd Tsd geb gest Anm Hrsg bzgl lt",
  // French, Spanish, Portuguese, Italian
  "MM Mme Mmes Mlle Mlles Mgr p.ex Sr Sra Sras Srta Dra Dña Ud Uds Vd Vds p.ej Exmo Exma Sig Dott Avv Arch",
  // Dutch, Danish, Norwegian, Swedish
  "dhr mevr mw drs bijv bv d.w.z o.a m.b.t t.a.v f.eks bl.a dvs t.ex t.o.m m.a.o",
  // Polish, Czech, Slovak
  "np tzn tj tzw tzv např napr ul im św prof mgr inż dr resp",
  // Russian, Ukrainian
  "г гр ул им пл просп проф акад доц т.е т.н т.к см напр ім вул",
);
// Words whose full stop ends a sentence only if a word that starts sentences follows.
const MAY_END = words("Jr Sr Inc Ltd Corp Co Cos Bros Dept Univ Assn Ave Blvd Rd al");
// Words whose full stop does not end a sentence if a number follows.
const BEFORE_NUMBERS = words(
  "No Nos no nos Nr nr Av est c",
  "Art Arts art Abs Abb Abschn Bd Bde Kap Rn Rdnr Tab Ziff Fig Figs fig Eq Eqs Sec sec Sect Ch ch Vol",
  "vol p pp P Pp al ed núm núms pág págs cap n nn pag str č čl s стр рис табл гл п пп ст max min",
  "Jan Feb Mar Mär Apr Jun Jul Aug Sep Sept Oct Okt Nov Dec Dez janv févr avr juil sept oct nov déc",
);
// German nouns that follow an ordinal number with a full stop.
const ORDINAL_NOUNS = words(
  "Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember Jahrhundert",
  "Jahrhunderts Jahrtausend Weltkrieg Weltkriegs Geburtstag Mal Platz Stock Klasse Auflage Kapitel Tag Jahr Minute",
  "Runde Bundesliga Liga",
);
// German words before an ordinal number with a full stop.
const BEFORE_ORDINALS = words("der die das des dem den im am zum vom beim ins ab seit seiner ihrer sein ihr unser");
// Words that start a sentence much more often than they follow an abbreviation such as U.S. or p.m.
const SENTENCE_STARTERS = words(
  "The This That These Those There He She It We They You His Her Its Our Their My A An In On At As If But And Or So",
  "When While After Before However For From To What Who Why How Where Der Die Das Ein Eine Er Sie Es Wir Ich Ihr Und",
  "Aber Doch Im Am Als Wenn Nach Vor Mit Auf Für Le La Les Un Une Il Elle Ils Elles Nous Vous Ce Cette Mais Et En",
  "Dans Pour Je El Los Las Una Él Ella Ellos Pero Se Por Para Con O Os Um Uma Ele Ela Mas Lo Gli I Uno Ma De Het Een",
  "Hij Zij Wij Ik Maar Он Она Они Оно Мы Вы Я Это В На И Но А",
);

// Content of character classes.
export const QUOTES = "\"'“”„‟‘’‚‛«»‹›"; // which of them opens depends on the language
const OPENING = QUOTES + "(\\[{¿¡（［｛「『【〈《〔｢—–\\-";
export const CLOSING = QUOTES + ")\\]}）］｝」』】〉》〕｣";
const HAN_AND_KANA =
  "々〆〇\\u3040-\\u30ff\\u31f0-\\u31ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\uff66-\\uff9f\\u{20000}-\\u{3ffff}";
/** Han, Kana and their punctuation, Thai, Lao, Myanmar, Khmer */
export const UNSPACED =
  "\\u2e80-\\u312f\\u31a0-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\ufe30-\\ufe4f\\uff00-\\uff9f\\u{1b000}-\\u{1b16f}" +
  "\\u{20000}-\\u{3ffff}\\u0e00-\\u0eff\\u1000-\\u109f\\ua9e0-\\ua9ff\\uaa60-\\uaa7f\\u1780-\\u17ff\\u19e0-\\u19ff";

// Unicode's Sentence_Terminal, except marks that need a space after them.
const FINAL =
  "。｡！？" + // Chinese and Japanese
  "।॥" + // the languages of India
  "\\u061d-\\u061f\\u06d4" + // Arabic, Persian, Urdu
  "։።፧፨။។៕" + // Armenian, Ethiopic, Myanmar, Khmer
  "\\u0700-\\u0702\\u07f9\\u166e\\u1803\\u1809\\u1944\\u1945\\u1aa8-\\u1aab\\u1b5a\\u1b5b\\u1b5e\\u1b5f\\u1c3b\\u1c3c" +
  "\\u1c7e\\u1c7f\\u2e2e\\u2e3c\\ua4ff\\ua60e\\ua60f\\ua6f3\\ua6f7\\ua876\\ua877\\ua8ce\\ua8cf\\ua92f\\ua9c8\\ua9c9" +
  "\\uaa5d-\\uaa5f\\uaaf0\\uaaf1\\uabeb";
const AMBIGUOUS = ".!?…‥‼‽⁇⁈⁉．";
const EMOJI = "\\u200d\\u2600-\\u27bf\\ufe0f\\u{1f300}-\\u{1faff}";
const GREEK_QUESTION = "(?<=[\\u0370-\\u03ff\\u1f00-\\u1fff])[;\\u037e]";

const ENDS = new RegExp(
  `((?:[${FINAL}${AMBIGUOUS}]|${GREEK_QUESTION})+)` +
  `((?:[${CLOSING}${EMOJI}]|\\[[${DIGIT}]{1,3}\\]|[${SPACE}](?:»|[${EMOJI}]+)(?=[${SPACE}]|$))*)`, "gu");
const HAS_FINAL = new RegExp(`[${FINAL}]`, "u");
const CONTINUES = /[\u3041-\u309f,;:、，；：]/uy; // 「はい。」と言った
const FIRST_LETTER = new RegExp(`[${SPACE}]+[${OPENING}${SPACE}]{0,8}([${WORD}])`, "uy");
const UNSPACED_QUESTION = new RegExp(`[${HAN_AND_KANA}]`, "uy");
const INITIAL = new RegExp(`^(?:[^\\n]*[.\\-–’'])?[${LETTER}]$`, "u");
const DOTTED = new RegExp(`^(?:[${LETTER}]{1,2}\\.)+[${LETTER}]{1,2}$`, "u");
const NUMBERING = new RegExp(`^(?:[${DIGIT}]{1,3}(?:\\.[${DIGIT}]{1,3})*|[IVXLC]+)$`, "u");
const ROMAN = /^[IVX]{2,}$/u;
const WHOLE_WORD = new RegExp(`^[${LETTER}]{5,}$`, "u"); // few abbreviations are as long, and those are known
const NEXT_WORD = new RegExp(`[${SPACE}]+([${WORD}]+)(\\.?)`, "uy");
const OPENING_START = new RegExp(`^[${OPENING}]+`, "u");
const MAX_WORD = 24; // characters; no abbreviation is longer
const MAX_QUOTE = 400; // characters in which the quotation mark before another one is sought
const LONG = words("etc usw abbrev descr devel einschl zuzügl bezügl"); // before a lowercase letter
const LOWERCASE_ABBREVIATIONS = new Set([...ABBREVIATIONS, ...MAY_END, ...LONG].map(word => word.toLowerCase()));

/** @typedef {{ start: number, closingStart: number, end: number, marks: string, closing: string }} Marks */

/**
 * Return the sentences of a text without the spaces around them; a line break also ends a sentence.
 * @param {string} text
 * @returns {string[]}
 */
export function splitSentences(text) {
  const sentences = splitLines(text).flatMap(line => {
    const boundaries = boundariesOf(line);
    return boundaries.slice(1).map((end, index) => strip(line.slice(boundaries[index], end)));
  });
  return sentences.filter(sentence => sentence);
}

/** Return the boundaries of the sentences of a line; punctuation without a word is part of a neighbour. */
function boundariesOf(/** @type {string} */ line) {
  const boundaries = [0, ...endsOf(line), line.length];
  const hasWord = boundaries.slice(1).map((end, index) => hasAlphanumeric(line.slice(boundaries[index], end)));
  const first = hasWord.indexOf(true) + 1;
  if (!first) return [0, line.length];
  return [0, ...boundaries.slice(0, -1).filter((_, index) => index >= first && hasWord[index]), line.length];
}

function* endsOf(/** @type {string} */ line) {
  let start = 0;
  const hasCapitals = !isLower(line);
  for (const match of line.matchAll(ENDS)) {
    const [whole, text, closing] = match;
    const marks = {
      start: match.index, closingStart: match.index + text.length, end: match.index + whole.length, marks: text, closing,
    };
    const end = closingEnd(line, start, marks);
    if (end < line.length && isEnd(line, start, marks, end, hasCapitals)) {
      yield end;
      start = end;
    }
  }
}

/**
 * Return the end of the quotes and brackets that close after the marks; in Chinese the next sentence may open.
 * @param {string} line @param {number} start @param {Marks} match
 */
function closingEnd(line, start, match) {
  if (!match.closing || !HAS_FINAL.test(match.marks)) return match.end;
  const before = line.slice(skipBack(line, match.start, MAX_QUOTE, start), match.start);
  const quotes = before.split('"').length - 1;
  const opening = match.closing.search(quotes % 2 ? /[“‘]/u : /[“‘"]/u); // in German, “ and ‘ close
  return opening < 0 ? match.end : match.closingStart + opening;
}

/**
 * Return whether the sentence that began at `start` ends with the matched marks and closing quotes.
 * @param {string} line @param {number} start @param {Marks} match @param {number} end @param {boolean} hasCapitals
 */
function isEnd(line, start, match, end, hasCapitals) {
  const closing = line.slice(match.closingStart, end);
  if (HAS_FINAL.test(match.marks)) return !(closing && matchAt(CONTINUES, line, end));
  if (!isSpace(line[end])) return "!?".includes(match.marks.slice(-1)) && !!matchAt(UNSPACED_QUESTION, line, end);
  const first = matchAt(FIRST_LETTER, line, end)?.[1] ?? "";
  if (isLowercase(first) && !endsBeforeLowercase(line, start, match, hasCapitals)) return false;
  return match.marks !== "." || !!closing || !belongsToWord(line, start, match.start, first);
}

/**
 * Return whether a sentence may end before a lowercase letter: after a whole word, or if there are no capitals.
 * @param {string} line @param {number} start @param {Marks} match @param {boolean} hasCapitals
 */
function endsBeforeLowercase(line, start, match, hasCapitals) {
  if (!hasCapitals) return !match.marks.includes("..") && !match.marks.includes("…");
  const word = wordsBefore(line, start, match.start).at(-1) ?? "";
  return match.marks + match.closing === "." && WHOLE_WORD.test(word) && isLower(word);
}

/**
 * Return whether the full stop at `stop` belongs to an abbreviation, an initial or a number.
 * @param {string} line @param {number} start @param {number} stop @param {string} following
 */
function belongsToWord(line, start, stop, following) {
  const before = wordsBefore(line, start, stop);
  const previous = before.at(-2) ?? "", word = (before.at(-1) ?? "").replace(OPENING_START, "");
  const [, after = "", dot = ""] = matchAt(NEXT_WORD, line, stop + 1) ?? [];
  if (isDigit(following) && (BEFORE_NUMBERS.has(word) || word.endsWith("str") || isShortNumber(word))) return true;
  if (NUMBERING.test(word) && before.length === 1 && countCharacters(line.slice(start, stop)) <= MAX_WORD)
    return true; // 2. Wash your hands
  if (isShortNumber(word) || ROMAN.test(word))
    return ORDINAL_NOUNS.has(after) || BEFORE_ORDINALS.has(previous.toLowerCase());
  if (isAbbreviation(word, previous, following)) return !(word === "г" && isDigit(previous)); // в 1990 г. Он
  if (MAY_END.has(word) || DOTTED.test(word)) return !SENTENCE_STARTERS.has(after);
  if (INITIAL.test(word))
    return isUpper([...word].at(-1) ?? "") || (dot === "." && (countCharacters(after) === 1 || after === "Chr")); // z. B.
  return false;
}

/**
 * Return whether a word, its last part after a hyphen, or its two halves as in d. h. are an abbreviation.
 * @param {string} word @param {string} previous @param {string} following
 */
function isAbbreviation(word, previous, following) {
  const known = isLower(following) ? LOWERCASE_ABBREVIATIONS : ABBREVIATIONS;
  const [first = "", ...rest] = word;
  const forms = [word, first.toLowerCase() + rest.join(""), word.split(/[-–]/u).at(-1) ?? ""];
  return forms.some(form => known.has(form)) || (previous.endsWith(".") && known.has(previous + word));
}

/** Return the last words of a sentence before a full stop. */
function wordsBefore(/** @type {string} */ line, /** @type {number} */ start, /** @type {number} */ stop) {
  return splitSpaces(line.slice(skipBack(line, stop, MAX_WORD, start), stop));
}

/** @param {string} word */
const isShortNumber = word => isDigit(word) && countCharacters(word) <= 2;

/** Return whether a letter is lowercase, except Georgian ones, which also start sentences. */
function isLowercase(/** @type {string} */ letter) {
  return isLower(letter) && !(letter >= "\u10d0" && letter <= "\u10ff");
}

/** @param {RegExp} pattern sticky @param {string} text @param {number} at */
function matchAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}
