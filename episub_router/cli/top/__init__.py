"""`episub top`: a live view of a node in a topic."""
