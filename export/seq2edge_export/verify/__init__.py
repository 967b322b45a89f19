"""Prove that a bundle says what the original model says."""
