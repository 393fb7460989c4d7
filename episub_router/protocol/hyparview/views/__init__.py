"""The active view and the passive view, and what rings need to know."""
