"""The encoder and decoder sessions of a bundle, and the KV cache."""
