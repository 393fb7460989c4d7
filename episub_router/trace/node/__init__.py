"""Making the events of a running node, from its Pubsub and its router."""

from episub_router.trace.node.events import NodeTrace

__all__ = ["NodeTrace"]
