"""Load a bundle from disk, and vet everything in it first."""
