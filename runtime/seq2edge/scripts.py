"""What writing systems have in common: marks that end, marks that close, letters without spaces; needs nothing."""

# Each is the inside of a character class of a regular expression.
QUOTES = "\"'“”„‟‘’‚‛«»‹›"  # who opens with which depends on the language
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
