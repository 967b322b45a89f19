"""The PyTorch Transformer that all checkpoint families are loaded into."""
