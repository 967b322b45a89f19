"""Other tools that ``seq2edge bench --against`` measures with the same weights.

Each peer is a module with ``prepare`` and ``open_peer`` (see ``seq2edge.bench.system.PeerModule``), registered in
pyproject.toml as an entry point of the group ``seq2edge.peers``. Its top-level imports are limited to what users of the
tool need, so that the measured memory is the tool's; ``prepare`` may import anything.
"""
