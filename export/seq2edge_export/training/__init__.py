"""A small reference trainer."""
