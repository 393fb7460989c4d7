"""Frames to remote peers, and the queues that they go through (E42)."""
