"""Measure bundles and peers side by side: the parts of ``seq2edge bench``."""
