"""Execution providers, sessions and the hardware they run on."""
