"""seq2edge's export layer: checkpoints, the PyTorch model, its trainer, and the way to a bundle."""
