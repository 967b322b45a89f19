"""Settings as plain values, whether they were an argparse namespace, an object of omegaconf or a dict; needs nothing.

A value of omegaconf is under ``_val``, the items of a dict or a list of it are under ``_content``. What is left open
(``???``) or refers to another setting (``${model.decoder.embed_dim}``) counts as not given.
"""

from typing import Any

from seq2edge_export.fairseq.pickled import StandIn

OPEN, REFERENCE = "???", "${"


def plain(value: Any) -> Any:
    """Dicts, lists, texts, numbers and None; anything else is None."""
    if isinstance(value, StandIn):
        return plain(_inside(value))
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str) and (value == OPEN or value.startswith(REFERENCE)):
        return None
    return value if isinstance(value, str | int | float | bool) else None


def plain_dict(value: Any) -> dict[str, Any]:
    """The same for what should be a dict; a text is the name of one."""
    found = plain(value)
    if isinstance(found, str):
        return {"_name": found}
    return found if isinstance(found, dict) else {}


def _inside(value: StandIn) -> Any:
    if isinstance(value.state, dict):
        if value.name == "argparse.Namespace":
            return value.state
        return value.state.get("_content", value.state.get("_val"))
    is_choice = value.name.startswith("fairseq") and len(value.arguments) == 1
    return value.arguments[0] if is_choice else None
