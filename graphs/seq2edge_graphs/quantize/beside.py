"""Compare a bundle in fewer bits with the one in float32 that it was made from; needs onnxruntime."""

from collections.abc import Sequence
from functools import partial

from seq2edge.bundle import Bundle
from seq2edge.tokenizer import Tokenizer, load_tokenizer
from seq2edge_graphs.compare.hear import Task
from seq2edge_graphs.compare.measure import Comparison, opened
from seq2edge_graphs.compare.sentences import readable


def beside(bundle: Bundle, original: Bundle, texts: Sequence[str] | None) -> Comparison:
    """Both side by side on some sentences, or on a built-in set."""
    manifest, tokenizer = original.manifest, tokenizer_of(original)
    sources, most_tokens = readable(texts, tokenizer, longest=manifest.max_positions)
    return Comparison(
        ours=bundle,
        theirs=partial(opened, original),
        tokenizer=tokenizer,
        task=Task(sources, manifest.generation, most_tokens),
    )


def tokenizer_of(bundle: Bundle) -> Tokenizer:
    manifest = bundle.manifest
    files = {name: bundle.folder / name for name in manifest.tokenizer.files}
    return load_tokenizer(manifest.tokenizer, manifest.tokens, files)
