"""Recipes: TOML files that say which tensors of a state dict are what."""
