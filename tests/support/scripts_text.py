"""Text in many scripts for tokenizer tests: sentences to train on, and lines that no trainer has seen."""

import io
import random

import sentencepiece

WORDS = {
    "en": "the old man sees a red house and the girl next door wants two green apples today because nobody came",
    "de": "der alte Mann sieht ein rotes Haus und das Mädchen von nebenan möchte heute zwei grüne Äpfel",
    "fr": "le vieil homme voit une maison rouge et la fille d'à côté veut deux pommes vertes aujourd'hui",
    "ru": "старый человек видит красный дом и девушка по соседству хочет сегодня два зелёных яблока",
    "ar": "يرى الرجل العجوز بيتا أحمر والفتاة المجاورة تريد تفاحتين خضراوين اليوم",
    "hi": "बूढ़ा आदमी एक लाल घर देखता है और पड़ोस की लड़की आज दो हरे सेब चाहती है",
    "zh": "老人 看见 一座 红色 的 房子 隔壁 的 女孩 今天 想要 两个 绿 苹果 因为 没有 人 来",
    "ja": "老人 は 赤い 家 を 見て 隣 の 女の子 は 今日 緑 の りんご を 二つ 欲しい",
    "th": "ชายชรา เห็น บ้าน สีแดง และ เด็กหญิง ข้างบ้าน อยากได้ แอปเปิล สีเขียว",
}
UNSPACED = {"zh", "ja", "th"}
RANGES = ((0x21, 0x7E), (0xA1, 0x17F), (0x391, 0x3C9), (0x410, 0x44F), (0x621, 0x64A), (0x905, 0x939), (0x4E00, 0x4FFF))
RARE = ((0x1F600, 0x1F640), (0xFF01, 0xFF5E), (0x2010, 0x2027), (0xAC00, 0xAD00), (0x300, 0x36F))


def sentences(count: int = 600, seed: int = 1) -> list[str]:
    """Sentences of known words in all scripts, to train a tokenizer on."""
    random_ = random.Random(seed)
    return [_sentence(random_, random_.choice(list(WORDS))) for _ in range(count)]


def lines(count: int, seed: int = 2) -> list[str]:
    """Known words, words of random letters, rare characters and odd spaces in one line each; none is empty."""
    random_ = random.Random(seed)
    return [_line(random_) for _ in range(count)]


def train_sentencepiece(texts: list[str], size: int, model_type: str = "unigram", **options: object) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=size,
        model_type=model_type,
        character_coverage=0.98,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **options,
    )
    return model.getvalue()


def _sentence(random_: random.Random, language: str) -> str:
    words = random_.choices(WORDS[language].split(), k=random_.randint(3, 9))
    return ("" if language in UNSPACED else " ").join(words) + random_.choice(".!?。")


def _line(random_: random.Random) -> str:
    parts = [random_.choice((_sentence, _letters))(random_, random_.choice(list(WORDS))) for _ in range(3)]
    return random_.choice((" ", " ", "  ", "\t", "")).join(parts) + random_.choice(("", "", " ", "…"))


def _letters(random_: random.Random, language: str) -> str:
    first, last = random_.choice(RANGES * 3 + RARE)
    return "".join(chr(random_.randint(first, last)) for _ in range(random_.randint(1, 8)))
