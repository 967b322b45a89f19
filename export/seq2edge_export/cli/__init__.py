"""The commands that need PyTorch."""
