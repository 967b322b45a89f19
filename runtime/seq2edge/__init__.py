"""seq2edge's runtime: translate with exported encoder-decoder Transformers, without PyTorch."""

__version__ = "0.1.0"
