"""The ``seq2edge`` command line: one module for each command."""
