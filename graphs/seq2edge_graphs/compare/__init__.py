"""Compare a bundle with what it was made from, one idea a file; the other side is any engine."""
