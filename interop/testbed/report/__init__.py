"""A run for people: figures and a page."""
