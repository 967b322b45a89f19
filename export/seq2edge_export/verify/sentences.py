"""Sentences to compare on when none are given: short and long, several scripts, and what breaks tokenizers."""

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
