"""Traces: events of nodes in files, as go-libp2p-pubsub writes them (docs/trace.md)."""
