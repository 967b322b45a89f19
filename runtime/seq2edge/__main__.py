"""``python -m seq2edge``."""

from seq2edge.cli.main import run_process

run_process()
