"""py-libp2p's two caches of message ids, with what `ResilientPubsub` needs otherwise of them."""

from __future__ import annotations

from libp2p.pubsub.pubsub import ValidationCache, ValidationResult
from libp2p.tools.timed_cache.last_seen_cache import LastSeenCache


class SeenBefore(Exception):
    """Another copy of the message passed validation while this one was in it."""


class SeenOnce(LastSeenCache):
    """Ids of accepted messages, of which each is added once."""

    def add(self, key: bytes) -> bool:
        """Raises SeenBefore for an id that is there."""
        if not super().add(key):
            raise SeenBefore
        return True


class ValidCache(ValidationCache):
    """Results of validation, without failures.

    The next copy may have other content, come from a peer that the validator trusts more, or not
    run into a time-out.
    """

    def put(self, msg_id: bytes, result: ValidationResult) -> None:
        if result.is_valid:
            super().put(msg_id, result)
