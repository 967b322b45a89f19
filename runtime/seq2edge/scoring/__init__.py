"""Score given targets, align them with their source, and draw attention."""
