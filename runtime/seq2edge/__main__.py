"""``python -m seq2edge``."""

from seq2edge.cli.main import main

main(prog_name="seq2edge")
