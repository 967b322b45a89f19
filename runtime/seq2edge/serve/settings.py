"""Settings of the server, its errors, and the names of languages."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2edge.config.schema import setting
from seq2edge.devices.cpu import allowed_cpus

MOST_WORKERS = 4  # each has a batch in memory, and more would have smaller ones
NAMES = (
    "af Afrikaans,am Amharic,ar Arabic,az Azerbaijani,be Belarusian,bg Bulgarian,bn Bengali,bs Bosnian,ca Catalan,"
    "cs Czech,cy Welsh,da Danish,de German,el Greek,en English,eo Esperanto,es Spanish,et Estonian,eu Basque,"
    "fa Persian,fi Finnish,fr French,ga Irish,gl Galician,gu Gujarati,ha Hausa,he Hebrew,hi Hindi,hr Croatian,"
    "hu Hungarian,hy Armenian,id Indonesian,ig Igbo,is Icelandic,it Italian,ja Japanese,ka Georgian,kk Kazakh,"
    "km Khmer,kn Kannada,ko Korean,ky Kyrgyz,lb Luxembourgish,lo Lao,lt Lithuanian,lv Latvian,mg Malagasy,"
    "mk Macedonian,ml Malayalam,mn Mongolian,mr Marathi,ms Malay,mt Maltese,my Burmese,nb Norwegian,ne Nepali,"
    "nl Dutch,no Norwegian,oc Occitan,pa Punjabi,pb Portuguese (Brazil),pl Polish,ps Pashto,pt Portuguese,ro Romanian,"
    "ru Russian,sd Sindhi,si Sinhala,sk Slovak,sl Slovenian,so Somali,sq Albanian,sr Serbian,su Sundanese,sv Swedish,"
    "sw Swahili,ta Tamil,te Telugu,tg Tajik,th Thai,tl Tagalog,tr Turkish,uk Ukrainian,ur Urdu,uz Uzbek,"
    "vi Vietnamese,xh Xhosa,yi Yiddish,yo Yoruba,zh Chinese,zt Chinese (traditional),zu Zulu"
)


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """The options of ``seq2edge serve``; each can also be set by an environment variable."""

    host: str = setting("127.0.0.1", "address to listen on; 0.0.0.0 is all of the machine")
    port: int = setting(5000, "port to listen on; 0 is a free one")
    threads: int | None = setting(None, "CPU threads per batch; default: the CPUs divided among the workers")
    workers: int | None = setting(None, "batches that are translated at the same time; default: one per CPU, up to 4")
    merge: bool = setting(True, "translate what arrives at the same time in common batches")
    max_loaded: int = setting(4, "bundles that are kept in memory; the least recently used one is let go")
    max_waiting: int = setting(512, "requests that may wait; any more are refused with 503")
    max_characters: int = setting(200_000, "characters of a request")
    max_body: int = setting(4_000_000, "bytes of a request")
    max_beams: int = setting(16, "beams, and alternatives, that a request may ask for")
    time_limit: float = setting(60.0, "seconds that a request may take, with waiting")
    idle_limit: float = setting(10.0, "seconds that a connection may be silent before and between requests")
    api_keys: str = setting("", "file of API keys: lines of a key and, optionally, its requests per minute")
    rate: int = setting(0, "requests per minute of a key without a rate of its own, or of an address; 0 is no limit")
    cors_origin: str = setting("", "origins whose pages may use the API, separated by commas; * is all")
    proxies: str = setting("127.0.0.1", "addresses of proxies whose X-Forwarded-For is believed")
    page: bool = setting(True, "show the page at /")

    def __post_init__(self) -> None:
        for name in ("max_loaded", "max_waiting", "max_characters", "max_body", "max_beams"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be at least 1")
        for name in ("time_limit", "idle_limit"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be above 0")
        if self.rate < 0:
            raise ValueError(f"rate is {self.rate}, but must be at least 0")
        for name in ("workers", "threads"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be at least 1")
        if not 0 <= self.port < 2**16:
            raise ValueError(f"port is {self.port}, but must be between 0 and 65535")

    @property
    def batch_workers(self) -> int:
        """Threads that translate: small batches gain more from a core each than from several cores together."""
        return self.workers or min(allowed_cpus(), MOST_WORKERS)

    @property
    def batch_threads(self) -> int:
        return self.threads or max(1, allowed_cpus() // self.batch_workers)

    @property
    def keys_file(self) -> Path | None:
        return Path(self.api_keys) if self.api_keys else None


class ApiError(Exception):
    """An answer with an error status: one sentence for the client."""

    def __init__(self, status: int, sentence: str, *, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence
        self.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}


def language_name(code: str) -> str:
    """Return the English name of a language, or its code if that is unknown."""
    names: dict[str, Any] = dict(entry.split(" ", 1) for entry in NAMES.split(","))
    plain = code.replace("_", "-").lower()
    name = names.get(plain) or names.get(plain.partition("-")[0])
    region = code.replace("_", "-").partition("-")[2]
    return code if name is None else f"{name} ({region})" if region and plain not in names else name
