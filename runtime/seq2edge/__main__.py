"""``python -m seq2edge``."""

from seq2edge.cli import main

main(prog_name="seq2edge")
