"""Episub for py-libp2p: a pubsub router that builds broadcast trees over a self-healing overlay."""
