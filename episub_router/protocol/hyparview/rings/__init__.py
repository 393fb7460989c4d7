"""Random links that nobody chooses: neighbours on pseudo-random rings."""
