"""Show what a model does with a sentence: ``seq2edge explain``."""
