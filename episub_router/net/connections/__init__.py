"""Connections: how the router makes them, and which it closes again."""
