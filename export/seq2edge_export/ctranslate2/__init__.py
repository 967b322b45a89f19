"""What CTranslate2 makes of a model: a file of named arrays, settings in JSON, vocabularies."""
