"""Give a bundle a shortlist: lists of words that a source token may become, one idea a file."""
