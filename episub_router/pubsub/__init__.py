"""A Pubsub for py-libp2p that bad input, bad luck and slow readers don't bring down."""

from episub_router.pubsub.drops import PubsubDrop
from episub_router.pubsub.params import PubsubParams
from episub_router.pubsub.policy import SignaturePolicy
from episub_router.pubsub.resilient import ResilientPubsub
from episub_router.pubsub.subscription import Lagged, Subscription

__all__ = [
    "Lagged",
    "PubsubDrop",
    "PubsubParams",
    "ResilientPubsub",
    "SignaturePolicy",
    "Subscription",
]
