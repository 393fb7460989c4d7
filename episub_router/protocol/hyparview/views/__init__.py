"""The active view, the passive view, and their sizes."""
