"""Let a teacher translate plain text, and keep the pairs that are good to learn from."""
