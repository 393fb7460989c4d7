"""From received to delivered: the log, its frontier, and what waits for its dependencies."""
