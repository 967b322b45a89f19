"""The options of the search, with Hugging Face's names and meaning; needs nothing."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """How to turn scores into text; a checkpoint's ``generation_config.json`` gives the defaults."""

    decoder_start_token_id: int
    eos_token_id: int
    pad_token_id: int
    num_beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool = False
    max_new_tokens: int = 256

    def __post_init__(self) -> None:
        if self.num_beams < 1:
            raise ValueError(f"num_beams is {self.num_beams}, but must be at least 1")
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens is {self.max_new_tokens}, but must be at least 1")
