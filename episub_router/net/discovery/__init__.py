"""Finding nodes that are in a topic (E02)."""
