"""Large messages: cut and signed here, sent by turns, checked and handed to Pubsub whole."""

from episub_router.net.pieces.large_messages import LargeMessages

__all__ = ["LargeMessages"]
