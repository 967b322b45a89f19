"""The PyTorch Transformer that every checkpoint family is loaded into."""
