"""One participant by itself, fed by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

from episub_router.sds.interop import Interop, WireFormat, js_filter
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.effects import DiscardReason, Effect
from episub_router.sds.protocol.entry import Key, Restored, StoredMessage
from episub_router.sds.protocol.message import (
    HistoryEntry,
    Message,
    MessageId,
    ReceivedMessage,
    Way,
)
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.participant import Participant
from episub_router.sds.protocol.ranges import LogComparison
from episub_router.sds.wire.codec import Codec

WALL = 1_760_000_000_000
E = TypeVar("E")


def of(effects: list[Effect], kind: type[E]) -> list[E]:
    return [e for e in effects if isinstance(e, kind)]


class _Told:
    """Gives messages their hashes as ids, and takes ids as they are told."""

    def __init__(self, told: Codec, own: Codec) -> None:
        self.encode = own.encode
        self.decode = told.decode


class One:
    """A participant named "me" on a clock that tests move. `seen` keeps all effects.

    Its codec takes ids as they are told, so that tests can choose them; with `filters` it speaks as
    other implementations do.
    """

    def __init__(
        self,
        restored: Restored | None = None,
        *,
        channel_id: str = "0",
        join_last: int | None = None,
        filters: int | None = None,
        wire: WireFormat = WireFormat.CURRENT,
        **params: Any,
    ) -> None:
        self.params = SdsParams(**params)
        interop = Interop(wire, js_filter(filters or 10, 0.01))
        self.codec = interop.codec(self.params, lambda: WALL)
        self.now = 1000.0
        self.seen: list[Effect] = []
        self.filters = interop.filters
        self.participant = Participant(
            "me",
            channel_id,
            self.params,
            codec=self.codec if filters else _Told(self.codec, Codec(self.params)),
            dialect=interop.dialect() if filters else None,
            rng=random.Random(1),
            now=self.now,
            wall_offset=WALL / 1000 - self.now,
            restored=restored,
            join_last=join_last,
        )

    def send(self, content: bytes = b"x") -> tuple[MessageId, Message]:
        message_id, effects = self.participant.send(content, self.now)
        self.seen += effects
        return message_id, self.codec.decode(of(effects, fx.BroadcastBytes)[0].raw)

    def take(
        self, message: Message, way: Way = Way.BROADCAST, source: str | None = None
    ) -> list[Effect]:
        received = ReceivedMessage(message, self.codec.encode(message)[0], way, source)
        effects = self.participant.receive(received, self.now)
        self.seen += effects
        return effects

    def hear(self, message_id: MessageId, *history: MessageId, **fields: Any) -> list[Effect]:
        """A message of "other" with this id and causal history."""
        return self.take(made(message_id, *history, **fields))

    def compared(self, peer: str, comparison: LogComparison) -> list[Effect]:
        return self.answered(fx.AskCompare(peer, b"", ()), fx.Response(comparison=comparison))

    def range_answered(self, peer: str, ids: Sequence[Key], more: Key | None) -> list[Effect]:
        items = tuple(StoredMessage(key, b"", b"") for key in ids)
        ask = fx.AskRange(peer, 1, ids_only=True)
        return self.answered(ask, fx.Response(items=items, next=more))

    def ids_answered(
        self, peer: str, unknown: tuple[MessageId, ...], gone: Key | None
    ) -> list[Effect]:
        return self.answered(fx.AskIds(peer, unknown), fx.Response(unknown_ids=unknown, gone=gone))

    def answered(self, ask: fx.Ask, response: fx.Response) -> list[Effect]:
        """A peer has answered, without a message."""
        return self.participant.answered(ask, response, lambda *_: None, self.now)

    def wait(self, seconds: float) -> list[Effect]:
        """What happens of itself meanwhile."""
        end, effects = self.now + seconds, []
        while self.participant.deadline() <= end:
            self.now = max(self.now, self.participant.deadline())
            effects += self.participant.poll(self.now)
        self.now = end
        self.seen += effects
        return effects

    def published(self, effects: list[Effect]) -> list[Message]:
        return [self.codec.decode(p.raw) for p in of(effects, fx.BroadcastBytes)]

    def resent(self, effects: list[Effect]) -> list[MessageId]:
        posts = of(effects, fx.BroadcastBytes)
        return [post.message_id for post in posts if post.purpose is fx.Purpose.RESEND]

    @property
    def log(self) -> list[MessageId]:
        return [message_id for _, message_id in self.participant.log.places()]

    def drops(self, effects: list[Effect]) -> list[DiscardReason]:
        return [d.reason for d in of(effects, fx.Discarded)]


def made(message_id: MessageId, *history: MessageId, **fields: Any) -> Message:
    return Message(
        **{
            "sender_id": "other",
            "message_id": message_id,
            "channel_id": "0",
            "lamport": WALL,
            "causal_history": tuple(HistoryEntry(h) for h in history),
            "content": b"content",
            **fields,
        }
    )
