"""Graphs that compute in fewer bits, one idea a file: what can be rounded, how, and what computes with it then."""
