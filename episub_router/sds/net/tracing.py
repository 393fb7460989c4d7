"""The events of an SDS channel, from the effects that its driver carries out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.message import Message, MessageId
from episub_router.sds.wire.codec import Codec, detach_origin
from episub_router.trace.harmless import harmless
from episub_router.trace.node import NodeTrace


@harmless
class ChannelTrace:
    """The trace of one channel at one participant."""

    def __init__(self, trace: NodeTrace, topic: str, channel_id: str, participant: str) -> None:
        self._trace = trace
        self._where: dict[str, Any] = {
            "topic": topic,
            "channelID": channel_id,
            "participant": participant,
        }
        self._count = 0
        """Deliveries so far."""
        self._before: set[MessageId] = set()
        """Delivered before, and lost with their rows."""

    def fail(self, error: Exception) -> None:
        """Count an event that could not be made."""
        self._trace.fail(error)

    def lost_after_delivery(self, ids: Iterable[MessageId]) -> None:
        """These messages were logged, and are fetched again."""
        self._before.update(ids)

    def sent(self, codec: Codec, raw: bytes, purpose: fx.Purpose) -> None:
        """The message `raw` is to be published, with its author's proof where that is another."""
        message = codec.decode(detach_origin(raw)[0])
        self._tell(
            send=TraceEvent.SdsSend(
                messageID=message.message_id,
                purpose=purpose.value,
                lamport=message.lamport,
                causalHistory=message.history_ids,
                size=len(raw),
            )
        )

    def noticed(self, effect: fx.Effect) -> None:
        """`effect` is carried out; most are nobody's business but the driver's."""
        me = self._where["participant"]
        match effect:
            case fx.Logged(message=message) if message.message_id in self._before:
                self._before.discard(message.message_id)
            case fx.Logged(message=message, missing=missing) if message.sender_id != me:
                self._count += 1
                self._delivered(message, position=self._count, lost=missing)
            case fx.DeliverEphemeral(message=message):
                self._delivered(message)
            case fx.PossiblyAcknowledged(message_id=id, by=by, probability=probability):
                self._tell(ack=TraceEvent.SdsAck(messageID=id, by=by, probability=probability))
            case fx.Acknowledged(message_id=id, by=by):
                self._tell(ack=TraceEvent.SdsAck(messageID=id, by=by))
            case fx.Missing(message_id=id, dependencies=missing):
                self._tell(missing=TraceEvent.SdsMissing(messageID=id, dependencies=missing))
            case fx.Found(message_id=id, after=after):
                self._tell(found=TraceEvent.SdsFound(messageID=id, after=round(after * 1e9)))
            case fx.Lost(message_id=id):
                self._tell(lost=TraceEvent.SdsLost(messageID=id))
            case fx.Expired(message_id=id):
                self._tell(expired=TraceEvent.SdsExpired(messageID=id))

    def _delivered(self, message: Message, **more: Any) -> None:
        self._tell(
            deliver=TraceEvent.SdsDeliver(
                messageID=message.message_id,
                sender=message.sender_id,
                lamport=message.lamport,
                causalHistory=message.history_ids,
                size=len(message.content or b""),
                **more,
            )
        )

    def _tell(self, **what: Any) -> None:
        self._trace.sds(TraceEvent.Sds(**self._where, **what))
