"""What Marian writes: a file of named tensors with its settings inside, vocabularies, and settings of the search."""
