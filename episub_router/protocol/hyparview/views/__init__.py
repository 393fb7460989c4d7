"""The active view and the passive view."""
