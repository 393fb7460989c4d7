"""SDS: causal order and end-to-end reliability over a pubsub topic.

`SdsChannel` works over any py-libp2p Pubsub, whatever its router.
"""

from episub_router.sds.content.contents import ContentCipher
from episub_router.sds.content.messages import (
    ChannelMessage,
    ContentUnreadable,
    Damaged,
    LogItem,
    LogView,
    Snapshot,
)
from episub_router.sds.interop import Interop
from episub_router.sds.net.channel import SdsChannel
from episub_router.sds.net.driver import ChannelEvent
from episub_router.sds.net.exchange import ExchangeError
from episub_router.sds.net.intake import Rejected
from episub_router.sds.net.node import StoreNode
from episub_router.sds.net.opening import open
from episub_router.sds.net.outbox import RateLimit
from episub_router.sds.net.receipt import NotAcknowledgedError, Receipt
from episub_router.sds.protocol.clock import ClockAheadError
from episub_router.sds.protocol.effects import (
    Acknowledged,
    ClockAhead,
    EphemeralDropped,
    Expired,
    Found,
    Lost,
    Missing,
    PossiblyAcknowledged,
    StoreFull,
    UnreadDropped,
)
from episub_router.sds.protocol.outgoing import AckStatus
from episub_router.sds.protocol.params import LostPolicy, SdsParams
from episub_router.sds.store.sqlite import MemoryStore, SqliteStore
from episub_router.sds.store.sqlite_file import Durability
from episub_router.sds.store.values import Retention, StoreError, StoreFullError

__all__ = [
    "AckStatus",
    "Acknowledged",
    "ChannelEvent",
    "ChannelMessage",
    "ClockAhead",
    "ClockAheadError",
    "ContentCipher",
    "ContentUnreadable",
    "Damaged",
    "Durability",
    "EphemeralDropped",
    "ExchangeError",
    "Expired",
    "Found",
    "Interop",
    "LogItem",
    "LogView",
    "Lost",
    "LostPolicy",
    "MemoryStore",
    "Missing",
    "NotAcknowledgedError",
    "PossiblyAcknowledged",
    "RateLimit",
    "Receipt",
    "Rejected",
    "Retention",
    "SdsChannel",
    "SdsParams",
    "Snapshot",
    "SqliteStore",
    "StoreError",
    "StoreFull",
    "StoreFullError",
    "StoreNode",
    "UnreadDropped",
    "open",
]
