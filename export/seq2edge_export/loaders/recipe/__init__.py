"""Load any ``nn.Transformer`` state dict that a recipe describes."""
