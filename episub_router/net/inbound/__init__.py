"""Frames from remote peers: what of them may reach a topic (E42)."""
