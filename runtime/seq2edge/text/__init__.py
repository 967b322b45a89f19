"""Turn text into token ids and back."""
