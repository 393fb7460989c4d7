"""SDS-R's hashes: when to ask, when to answer, and whether to (byte-compatible with js).

All times are offsets in milliseconds.
"""

from __future__ import annotations

import hashlib

from episub_router.sds.protocol.message import MessageId, SenderId


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def request_delay(me: SenderId, message_id: MessageId, low: int, high: int) -> int:
    """T_req: how long to wait before asking the group for a missing message."""
    return _hash(me + message_id) % (high - low) + low


def response_delay(me: SenderId, author: SenderId, message_id: MessageId, high: int) -> int:
    """T_resp: how long to wait before answering; its author answers at once."""
    if me == author:
        return 0
    return ((_hash(me) ^ _hash(author)) * _hash(message_id)) % high


def in_response_group(me: SenderId, author: SenderId, message_id: MessageId, groups: int) -> bool:
    """Whether we are among the members that answer for this message."""
    if me == author:
        return True
    return _hash(me + message_id) % groups == _hash(author + message_id) % groups


def confirming_rank(me: SenderId, message_id: MessageId, members: int) -> float:
    """How many of the others, on average, confirm this message before we do (ours)."""
    return _hash(me + message_id) / 2**64 * max(1, members - 1)
