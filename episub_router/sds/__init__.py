"""SDS: causal order and end-to-end reliability over a pubsub topic.

`SdsChannel` works over any py-libp2p Pubsub, whatever its router.
"""

from episub_router.sds.net.channel import Receipt, SdsChannel
from episub_router.sds.net.engine import ChannelEvent, Rejected
from episub_router.sds.net.messages import ChannelMessage, LogItem
from episub_router.sds.net.node import StoreNode
from episub_router.sds.protocol.outgoing import Status
from episub_router.sds.protocol.params import LostPolicy, SdsParams, WireFormat
from episub_router.sds.store import MemoryStore, Retention, SqliteStore, Store, StoreError

__all__ = [
    "ChannelEvent",
    "ChannelMessage",
    "LogItem",
    "LostPolicy",
    "MemoryStore",
    "Receipt",
    "Rejected",
    "Retention",
    "SdsChannel",
    "SdsParams",
    "SqliteStore",
    "Status",
    "Store",
    "StoreError",
    "StoreNode",
    "WireFormat",
]
