"""Load Hugging Face models."""
