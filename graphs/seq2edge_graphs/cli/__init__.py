"""The commands that edit graphs."""
