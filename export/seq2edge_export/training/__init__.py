"""A small reference trainer for encoder-decoder Transformers."""
