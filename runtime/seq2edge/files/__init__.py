"""Translate files line by line, and resume where a run stopped."""
