"""Our messages as values and bytes: what each kind says of our state (S07, S13, S14)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from episub_router.sds.protocol.causal.frontier import Frontier
from episub_router.sds.protocol.causal.log import Log
from episub_router.sds.protocol.causal.tombstones import Tombstones
from episub_router.sds.protocol.message import (
    HistoryEntry,
    Message,
    MessageId,
    SenderId,
    message_id,
)
from episub_router.sds.protocol.params import SdsParams

_SYNC_ID = 16
"""Characters of a sync message's id."""


class Composer:
    """Gives each message its id, its history and filter, and its bytes."""

    def __init__(
        self,
        me: SenderId,
        channel_id: str,
        params: SdsParams,
        encode: Callable[[Message], bytes],
        rng: random.Random,
        frontier: Frontier,
        tombstones: Tombstones,
        log: Log,
    ) -> None:
        self._me = me
        self._channel_id = channel_id
        self._params = params
        self._encode = encode
        self._rng = rng
        self._frontier = frontier
        self._tombstones = tombstones
        self._log = log

    def content(
        self,
        content: bytes,
        lamport: int,
        history: list[HistoryEntry],
        requests: tuple[HistoryEntry, ...],
        *,
        short: bool,
        part: bool = False,
        parts: tuple[MessageId, ...] = (),
    ) -> tuple[MessageId, bytes]:
        """Id and bytes of a content message. Raises ValueError where it's too large.

        `short`: without what says nothing while nothing is missing.
        """
        new_id = message_id(self._channel_id, self._me, lamport, content, part=part, parts=parts)
        raw = self._encode(
            Message(
                sender_id=self._me,
                message_id=new_id,
                channel_id=self._channel_id,
                lamport=lamport,
                repair_request=requests,
                content=content,
                part=part,
                parts=parts,
                **self._state(history, short),
            )
        )
        if len(raw) > self._params.max_message:
            raise ValueError(
                f"the message has {len(raw)} bytes with its history and filter, "
                f"at most {self._params.max_message} can be sent"
            )
        return new_id, raw

    def sync(
        self, lamport: int, requests: tuple[HistoryEntry, ...], *, short: bool
    ) -> tuple[MessageId, bytes]:
        """Id and bytes of a sync message. Nobody asks for it, so its id may be short."""
        new_id = message_id(self._channel_id, self._me, lamport, b"")
        if short:
            new_id = new_id[:_SYNC_ID]
        message = Message(
            sender_id=self._me,
            message_id=new_id,
            channel_id=self._channel_id,
            lamport=lamport,
            repair_request=requests,
            **self._state(self._frontier.history(short=short), short),
        )
        return new_id, self._encode(message)

    def _state(self, history: list[HistoryEntry], short: bool) -> dict[str, Any]:
        """The fields that tell of our log."""
        named = self._params.causal_history
        gaps = self._tombstones.newest(self._params.gaps_named)
        return {
            "causal_history": tuple(history[:named]),
            "more_history": tuple(e.message_id for e in history[named:]),
            "bloom_filter": None if short else self._frontier.filter_bytes(),
            "gaps": gaps,
            "gaps_more": len(gaps) < len(self._tombstones) or self._tombstones.forgotten,
            "since": self._log.since,
        }

    def ephemeral(self, content: bytes) -> tuple[MessageId, bytes]:
        """Id and bytes of an ephemeral message. Raises ValueError where it's too large."""
        new_id = message_id(self._channel_id, self._me, self._rng.getrandbits(64), content)
        raw = self._encode(
            Message(
                sender_id=self._me, message_id=new_id, channel_id=self._channel_id, content=content
            )
        )
        if len(raw) > self._params.max_message:
            raise ValueError(f"{len(raw)} bytes, at most {self._params.max_message} can be sent")
        return new_id, raw
