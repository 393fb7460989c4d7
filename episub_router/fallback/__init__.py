"""Service to peers that don't speak Episub: py-libp2p's own GossipSub, kept to those peers."""

from episub_router.fallback.bridge import Bridge
from episub_router.fallback.params import FallbackParams

__all__ = ["Bridge", "FallbackParams"]
