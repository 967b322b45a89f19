"""Load checkpoints of fairseq."""
