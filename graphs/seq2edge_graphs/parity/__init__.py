"""Compare the outputs of a bundle with those of the source model."""
