"""What OpenNMT-py 3 and its successor eole write: tensors, settings and vocabularies, in a file or a folder."""
