"""Quantize the graphs of a bundle."""
