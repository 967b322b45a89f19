"""Load checkpoints in the formats of Marian, Bergamot and Firefox."""
