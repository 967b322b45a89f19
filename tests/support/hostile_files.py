"""Write files that expand to far more than their size: tokenizers, normalization tables and archives."""

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

LEAF = 1 << 31
BLOCK = 2**20  # bytes of zeros that are compressed once


def tokenizer_json(**components: Any) -> str:
    """Return a small ``tokenizer.json`` with some components, such as ``normalizer``."""
    names = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
    model = {"type": "WordLevel", "vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "a": 4}, "unk_token": "<unk>"}
    content = {"version": "1.0", "added_tokens": [], **dict.fromkeys(names), "model": model}
    return json.dumps(content | components)


def replacing(pattern: str, content: str, *, regex: bool = False) -> dict[str, Any]:
    """Return a component that replaces a text."""
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": pattern}, "content": content}


def tables_with(tables: bytes, replacement: bytes, character: bytes = b"\t") -> bytes:
    """Return normalization tables that replace a character, which they already replace, by something else."""
    (length,) = struct.unpack_from("<I", tables)
    units, texts = np.frombuffer(tables[4 : 4 + length], "<u4").copy(), tables[4 + length :]
    place = 0
    for byte in character:
        place ^= _offset(units[place]) ^ byte
    units[place ^ _offset(units[place])] = LEAF | len(texts)
    return tables[:4] + units.tobytes() + texts + replacement + b"\0"


def _offset(unit: np.uint32) -> int:
    return int(unit >> 10) << (int(unit & (1 << 9)) >> 6)


def model_with_tables(model: bytes, replacement: bytes, *, denormalizer: bool = False) -> bytes:
    """Return a SentencePiece model whose normalizer, or denormalizer, turns a tab into something else."""
    from sentencepiece import sentencepiece_model_pb2

    content = sentencepiece_model_pb2.ModelProto.FromString(model)
    tables = tables_with(content.normalizer_spec.precompiled_charsmap, replacement)
    specification = content.denormalizer_spec if denormalizer else content.normalizer_spec
    specification.precompiled_charsmap = tables
    return bytes(content.SerializeToString())


def write_zip_bomb(path: Path, megabytes: int, name: str = "archive/data.pkl", *, declared: int | None = None) -> None:
    """Write a zip file with one deflated member of zeros, without compressing all of them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(BLOCK)) + packer.flush(zlib.Z_FULL_FLUSH)
    data = block * megabytes + zlib.compressobj(9, zlib.DEFLATED, -15).flush()
    size = min(megabytes * BLOCK, 2**32 - 2) if declared is None else declared
    fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, 0, len(data), size, len(name), 0)
    entry = b"PK\3\4" + fields + name.encode() + data
    start = struct.pack("<HHHII", 0, 0, 0, 0, 0)
    listed = b"PK\1\2" + struct.pack("<H", 20) + fields + start + name.encode()
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(listed), len(entry), 0)
    path.write_bytes(entry + listed + end)
