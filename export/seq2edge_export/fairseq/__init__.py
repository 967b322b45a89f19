"""What fairseq makes of a model: a pickled checkpoint, dictionaries, and the files of its tokenizer."""
