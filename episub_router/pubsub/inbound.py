"""From a peer's inbound stream to messages, subscriptions and the router's control messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import RPC, Message
from libp2p.pubsub.pubsub import GossipsubEvent, Pubsub
from libp2p.pubsub.utils import maybe_consume_signed_record

from episub_router.pubsub.acceptance import fault_of, is_topic
from episub_router.pubsub.drops import FAULTS, REJECTED, PubsubDrop
from episub_router.pubsub.frames import FrameReader, UnfinishedFrames
from episub_router.pubsub.metering import Meter
from episub_router.pubsub.params import PubsubParams
from episub_router.pubsub.traffic import kind_of
from episub_router.pubsub.validation_queue import ValidationJob
from episub_router.pubsub.validators import MAX_PEERS, MOST_FRAME_WORK, Costs, Validators
from episub_router.trace.node import NodeTrace
from episub_router.util.bounded import put_last
from episub_router.util.token_buckets import TokenBuckets
from episub_router.wire.fields import is_crowded
from episub_router.wire.peer_records import RecordFault, record_excess

_READING = 50e-6
"""Seconds of CPU time that a frame takes before it is looked at and after; measured, with room."""

_EMPTY = 2
"""Bytes; an RPC with a `control` that has nothing in it."""


MAX_CONTROL = 1024
"""GossipSub's control messages in one frame; chosen: some for each of hundreds of topics."""

_CONTROL = ("ihave", "iwant", "graft", "prune", "idontwant")


class OutOfBudgetError(Exception):
    """A peer's faults have cost too much."""


@dataclass(slots=True)
class _Frame:
    """One frame, while it is acted on."""

    jobs: list[ValidationJob] = field(default_factory=list)
    """Its messages that are to be validated."""
    refused: list[Message] = field(default_factory=list)
    """Its messages that aren't."""
    is_faulty: bool = False
    """Whether something in it comes from no correct peer."""


@dataclass(eq=False)
class InboundFrames:
    """Reads frames as fast as their peer's budget of work allows."""

    pubsub: Pubsub
    params: PubsubParams
    costs: Costs
    validators: Validators
    drop: Callable[[PubsubDrop, ID, object], None]
    """Counts and logs."""
    refuse: Callable[[ID, Message], None]
    """Notifies the router of an invalid message."""
    authored: bool
    """Whether messages may name their authors."""

    def __post_init__(self) -> None:
        params = self.params
        self.unfinished = UnfinishedFrames(params.max_unfinished_bytes, params.frame_timeout)
        self._changes: TokenBuckets[ID] = TokenBuckets(params.subscription_changes, MAX_PEERS)
        self._records: dict[ID, bytes] = {}
        """The last signed record of each peer, the one that came longest ago first."""
        self.trace: NodeTrace | None = None

    async def read(self, reader: FrameReader) -> None:
        """Act on each frame of a stream. Raises OutOfBudgetError and what else ends the stream."""
        peer = reader.stream.muxed_conn.peer_id
        while self.pubsub.manager.is_running:
            frame = await reader.read()
            if self.costs.is_bankrupt(peer):
                raise OutOfBudgetError("its faults have cost too much")
            # An honest peer may be over its budget where this node is slow. It loses nothing:
            # what it sends waits, and in the end so does the peer.
            # What is left of an older stream isn't kept so long, or many would add up.
            if wait := self.costs.wait(peer):
                with reader.waiting():
                    await trio.sleep(wait)
            taken, meter = _Frame(), Meter()
            try:
                await meter.run(self._take_frame(peer, frame, reader, taken))
            finally:
                self.costs.charge(peer, meter.spent + _READING, is_faulty=taken.is_faulty)
            for job in taken.jobs:
                if not taken.is_faulty:
                    job.frame_work = min(meter.spent / len(taken.jobs), MOST_FRAME_WORK)

    async def _take_frame(self, peer: ID, frame: bytes, reader: FrameReader, taken: _Frame) -> None:
        if is_crowded(frame):
            self._drop(PubsubDrop.FRAME_CROWDED, peer, f"{len(frame)} bytes", taken)
            return
        rpc = RPC.FromString(frame)
        reader.has_messages |= bool(rpc.publish)
        self.validators.traffic.received[kind_of(rpc)] += len(frame)
        if len(frame) <= _EMPTY and not (rpc.publish or rpc.subscriptions or rpc.senderRecord):
            self._drop(PubsubDrop.FRAME_EMPTY, peer, f"{len(frame)} bytes", taken)
            return
        if len(frame) > MAX_CONTROL:
            entries = sum(len(getattr(rpc.control, name)) for name in _CONTROL)
            if entries > MAX_CONTROL:
                self._drop(PubsubDrop.FRAME_CROWDED, peer, f"{entries} control messages", taken)
                return
        if self.trace is not None:
            self.trace.rpc_received(rpc, frame, peer)
        if rpc.HasField("senderRecord") and not self._take_record(peer, rpc, taken):
            return
        self._take_messages(peer, rpc, taken)
        self._take_subscriptions(peer, rpc, taken)
        if rpc.HasField("control"):
            try:
                await self.pubsub.router.handle_rpc(rpc, peer)
            except Exception as error:
                self._drop(PubsubDrop.ROUTER_RAISED, peer, error, taken)
            if self.trace is not None:
                self.trace.look_at_mesh()
        # Only now: the control message beside a payload says what it is. Thousands take as long as
        # they took before, and others wait.
        if taken.refused:
            await trio.lowlevel.checkpoint()
        for msg in taken.refused:
            self.refuse(peer, msg)
        metrics = reader.stream.metric_send_channel
        if metrics is not None:
            await metrics.send(_event(peer, rpc, len(frame)))

    def _take_record(self, peer: ID, rpc: RPC, taken: _Frame) -> bool:
        """Verify the signed peer record in `rpc`, unless it is the last one of `peer`: py-libp2p
        sends it with each. It is taken out, or a router would do that again."""
        record = rpc.senderRecord
        if self._records.get(peer) != record:
            excess = record_excess(record)
            if excess is RecordFault.KEY_COSTLY:
                self._drop(PubsubDrop.KEY_COSTLY, peer, "a peer record", taken)
                return False
            if excess is not None or not maybe_consume_signed_record(rpc, self.pubsub.host, peer):
                detail = "a peer record of another" if excess is None else excess.value
                self._drop(PubsubDrop.RECORD_INVALID, peer, detail, taken)
                return False
        put_last(self._records, peer, record, MAX_PEERS)
        rpc.ClearField("senderRecord")
        return True

    def _take_messages(self, peer: ID, rpc: RPC, taken: _Frame) -> None:
        for msg in rpc.publish:
            if self.pubsub.topic_ids.isdisjoint(msg.topicIDs):
                continue
            reason = fault_of(msg, authored=self.authored)
            if reason is None:
                job = self.validators.put(peer, msg)
                if job is not None:
                    taken.jobs.append(job)
                    continue
                reason = PubsubDrop.VALIDATION_FULL
            self._drop(reason, peer, "a message", taken)
            taken.refused.append(msg)
            if self.trace is not None and reason in REJECTED:
                full = reason is PubsubDrop.VALIDATION_FULL
                why = "validation queue full" if full else "validation failed"
                self.trace.rejected(msg, peer, why)
        self.validators.start()

    def _take_subscriptions(self, peer: ID, rpc: RPC, taken: _Frame) -> None:
        """Act on what the frame amounts to: each topic once, and only where something changes."""
        if len(rpc.subscriptions) > self.pubsub.max_subscriptions_per_rpc:
            count = f"{len(rpc.subscriptions)} at once"
            self._drop(PubsubDrop.SUBSCRIPTIONS_TOO_MANY, peer, count, taken)
            return
        final: dict[str, bool] = {}
        for option in rpc.subscriptions:
            if is_topic(option.topicid):
                final[option.topicid] = option.subscribe
            else:
                self._drop(PubsubDrop.TOPIC_UNREADABLE, peer, "a subscription", taken)
        for topic, subscribe in final.items():
            if subscribe == (peer in self.pubsub.peer_topics.get(topic, ())):
                continue
            if not self._changes.take(peer, trio.current_time()):
                self._drop(PubsubDrop.SUBSCRIPTIONS_TOO_FAST, peer, topic, taken)
                return
            self.pubsub.handle_subscription(peer, RPC.SubOpts(subscribe=subscribe, topicid=topic))

    def _drop(self, reason: PubsubDrop, peer: ID, detail: object, taken: _Frame) -> None:
        taken.is_faulty |= reason in FAULTS
        self.drop(reason, peer, detail)


def _event(peer: ID, rpc: RPC, size: int) -> GossipsubEvent:
    event = GossipsubEvent()
    event.peer_id = peer.pretty()
    event.publish = bool(rpc.publish)
    event.subopts = bool(rpc.subscriptions)
    event.control = rpc.HasField("control")
    event.message_size = size
    return event
