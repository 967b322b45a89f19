"""Load checkpoints of OpenNMT-py and eole."""
