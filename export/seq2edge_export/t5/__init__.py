"""T5 as Hugging Face keeps it: shape, tensors and text."""
