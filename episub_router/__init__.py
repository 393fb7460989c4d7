"""Episub for py-libp2p: a pubsub router that builds broadcast trees over a self-healing overlay."""

from episub_router.pubsub import PubsubDrop, PubsubParams, ResilientPubsub

__all__ = ["PubsubDrop", "PubsubParams", "ResilientPubsub"]
