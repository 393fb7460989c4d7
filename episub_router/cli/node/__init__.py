"""`episub node`: one host in one topic."""
