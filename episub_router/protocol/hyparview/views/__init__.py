"""The active view and the passive view, and places on rings."""
