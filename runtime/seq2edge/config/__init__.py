"""Frozen settings shared by the manifest, the command line and the API."""
