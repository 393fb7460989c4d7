"""Starts the interop peers as processes and waits for what they report."""
