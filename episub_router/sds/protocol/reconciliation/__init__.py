"""Comparing logs with peers over direct streams."""
