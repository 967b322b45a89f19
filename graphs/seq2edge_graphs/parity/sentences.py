"""Load the sentences to compare models on, and their references."""

from collections.abc import Sequence
from pathlib import Path

from seq2edge.errors import DataError, UsageError
from seq2edge.files.lines import read_lines
from seq2edge.text.tokenizer import Tokenizer

BUILT_IN_TOKENS = 48  # per output of the built-in sentences: models may not know their language and never end
# Short and long, in several scripts, with edge cases of tokenizers.
SENTENCES = (
    "Good morning.",
    "Where is the nearest train station?",
    "I would have told you earlier if I had known that you were waiting for me.",
    "Tom bought three kilograms of apples for $4.50 on 12 March 2024.",
    "She asked whether the meeting could be moved to Thursday, because her flight had been cancelled again.",
    "No!",
    "The committee, which had not met since the previous spring, decided unanimously to postpone every decision.",
    "Ich habe den ganzen Tag auf dich gewartet.",
    "Können wir das morgen noch einmal besprechen?",
    "Je ne sais pas encore si je viendrai demain soir.",
    "¿Dónde puedo comprar un billete de ida y vuelta?",
    "Минуту назад он ещё стоял у окна.",
    "今天的天气比昨天好得多。",
    "明日の朝は早く起きなければなりません。",
    "هل يمكنك أن تساعدني في حمل هذه الحقيبة؟",
    "कृपया मुझे एक गिलास पानी दीजिए।",
    "e-mail: someone@example.org (24/7), 100 % 🙂",
    "AAAA aaaa 1234567890 .,;:!?",
    "A cat. A dog. A cat and a dog. Neither a cat nor a dog.",
    "x",
)


def encode_sentences(
    texts: Sequence[str] | None, tokenizer: Tokenizer, *, max_tokens: int
) -> tuple[list[list[int]], int]:
    """Return the token ids of the sentences, or of a built-in set, and the maximum number of new tokens.

    Built-in sentences that are too long for the model are left out.
    """
    if texts is None:
        sources = [source for source in tokenizer.encode(SENTENCES) if len(source) <= max_tokens]
    else:
        sources = tokenizer.encode(texts)
    for number, source in enumerate(sources, start=1):
        if len(source) > max_tokens:
            raise DataError(f"sentence {number} has {len(source)} tokens, but the model reads at most {max_tokens}")
    if not sources:
        raise DataError("there is no sentence to compare on; give some with --input")
    return sources, BUILT_IN_TOKENS if texts is None else max_tokens


def read_texts(source: Path | None, reference: Path | None) -> tuple[list[str] | None, list[str] | None]:
    """Read the lines of both files, except those that are empty on the source side."""
    if source is None:
        if reference is not None:
            raise UsageError("--reference needs --input: the built-in sentences have no references")
        return None, None
    texts = list(read_lines(source))
    references = list(read_lines(reference)) if reference is not None else None
    if references is not None and len(references) != len(texts):
        raise DataError(f"{source} has {len(texts)} lines, but {reference} has {len(references)}")
    kept = [index for index, text in enumerate(texts) if text.strip()]
    if not kept:
        raise DataError(f"{source} contains no sentence")
    return [texts[index] for index in kept], [references[index] for index in kept] if references is not None else None
