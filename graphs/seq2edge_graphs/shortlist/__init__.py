"""Add a lexical shortlist to a bundle."""
