"""A Pubsub for py-libp2p that bad input, bad luck and slow readers don't bring down."""

from episub_router.pubsub.drops import PubsubDrop
from episub_router.pubsub.params import PubsubParams
from episub_router.pubsub.policy import SignaturePolicy
from episub_router.pubsub.resilient import ResilientPubsub

__all__ = ["PubsubDrop", "PubsubParams", "ResilientPubsub", "SignaturePolicy"]
