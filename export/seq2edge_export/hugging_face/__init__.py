"""What the families of Hugging Face have in common: their files, their settings and the names of their tensors."""
