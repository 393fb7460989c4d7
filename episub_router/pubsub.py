"""A Pubsub for py-libp2p that bad input, bad luck and slow readers don't bring down.

docs/pubsub.md has what py-libp2p 0.8.1's own class does in each case, and what this one does.
"""

from __future__ import annotations

import functools
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any

import trio
from google.protobuf.message import DecodeError
from libp2p.abc import IHost, INetStream, IPubsubRouter, ISubscriptionAPI
from libp2p.exceptions import ParseError, ValidationError
from libp2p.io.exceptions import IOException, MessageTooLarge
from libp2p.network.connection.exceptions import RawConnError
from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import RPC, Message
from libp2p.pubsub.pubsub import GossipsubEvent
from libp2p.pubsub.subscription import TrioSubscriptionAPI
from libp2p.pubsub.utils import maybe_consume_signed_record
from libp2p.utils.varint import read_varint_prefixed_bytes_limited

from episub_router.publishing import BackpressurePubsub
from episub_router.trace.node import NodeTrace
from episub_router.trace.node.pushing import Pushes
from episub_router.trace.node.queues import TracedQueues
from episub_router.trace.tracer import Tracer
from episub_router.util.checks import check_type
from episub_router.util.params import param

logger = logging.getLogger(__name__)


class PubsubDrop(Enum):
    """Why `ResilientPubsub` dropped something. The value is the counter's name."""

    FRAME_OVERSIZED = "frame-oversized"
    """A frame longer than `max_inbound_rpc_size`; its stream was reset."""
    FRAME_MALFORMED = "frame-malformed"
    """A frame that is no RPC; its stream was reset."""
    RECORD_INVALID = "record-invalid"
    """A frame whose signed peer record is not its sender's."""
    SUBSCRIPTIONS_TOO_MANY = "subscriptions-too-many"
    """The subscriptions of a frame with more than `max_subscriptions_per_rpc` of them."""
    TOPIC_UNREADABLE = "topic-unreadable"
    """A message or subscription with a topic that is not UTF-8."""
    MESSAGE_UNVERIFIABLE = "message-unverifiable"
    """A message whose verification or validation raised, for example over a garbage key."""
    VALIDATION_FULL = "validation-full"
    """A message that came while `max_validating` others were in validation."""
    ROUTER_RAISED = "router-raised"
    """A frame that the router's `handle_rpc`, or a message that its `publish` raised over."""
    STREAM_FAILED = "stream-failed"
    """An inbound stream whose handler raised something unforeseen; it was reset."""
    SUBSCRIBER_SLOW = "subscriber-slow"
    """A message for a subscription whose buffer was full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PubsubParams:
    """Parameters of `ResilientPubsub`. Raises ValueError for one that is not positive."""

    subscription_buffer: int = param(
        1024, "messages", "ours: 5 s of stalled reader at 200 messages/s; py-libp2p has 32"
    )
    max_validating: int = param(1024, "messages", "ours: more than 10 validators do at once")
    warn_every: int = param(1000, "drops", "ours: a flood of bad input is no flood of log lines")
    seen_ttl: int = param(300, "s", "ours: the router's, so that nothing is delivered twice")

    def __post_init__(self) -> None:
        for name in ("subscription_buffer", "max_validating", "warn_every", "seen_ttl"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more: {getattr(self, name)}")


_REJECTED = (PubsubDrop.VALIDATION_FULL, PubsubDrop.MESSAGE_UNVERIFIABLE)
"""Drops of messages, which are traced as such."""


class _AcceptedMeanwhile(Exception):
    """Another copy of the message passed validation while this one was in it."""


class ResilientPubsub(BackpressurePubsub):
    """py-libp2p's `Pubsub` for any router, less the ways in which a peer can take it down.

    `options` are the keyword arguments of `Pubsub`. `drops` counts what was dropped, by
    reason; `lagging` counts the `SUBSCRIBER_SLOW` drops by topic, for the topics that are
    subscribed now. `tracer` (by default the router's, if it has one) gets what happens here, and
    `trace` is where others can add to it. Everything else is the interface of `Pubsub`.
    """

    def __init__(
        self,
        host: IHost,
        router: IPubsubRouter,
        *,
        params: PubsubParams | None = None,
        tracer: Tracer | None = None,
        **options: Any,
    ) -> None:
        check_type("params", params, PubsubParams, optional=True)
        check_type("tracer", tracer, Tracer, optional=True)
        self.params = params or PubsubParams()
        self.trace: NodeTrace | None = None
        self._pushes: Pushes | None = None
        self.drops: Counter[PubsubDrop] = Counter()
        self.lagging: Counter[str] = Counter()
        self._validating = 0
        self._validation_turns: dict[bytes, trio.Lock] = {}
        self._greeted: set[ID] = set()  # peers that opened such a stream since they connected
        self._resuming: set[ID] = set()  # peers that kept their subscriptions over a lost stream
        super().__init__(host, router, **{"seen_ttl": self.params.seen_ttl, **options})
        # Pubsub begins at the second that it is made in: a node that restarts within as many
        # seconds as it published messages gives new ones the ids of old ones.
        self.counter = time.time_ns()
        tracer = tracer or getattr(router, "tracer", None)
        if tracer is not None:
            self._trace_to(tracer)

    def _trace_to(self, tracer: Tracer) -> None:
        router: Any = self.router
        traces_itself = hasattr(router, "trace_to")
        name = "episub" if traces_itself else type(router).__name__.lower()
        self.trace = NodeTrace(tracer, self.my_id, name, self.get_message_id)
        self._pushes = Pushes(self, self.trace)
        if traces_itself:
            router.trace_to(self.trace)
        else:
            self.trace.watch_mesh(lambda: getattr(router, "mesh", {}))
        self.peer_queues = TracedQueues(self, self.trace)

    # Inbound streams and frames

    async def stream_handler(self, stream: INetStream) -> None:
        """Read a peer's stream to its end. Never raises: the swarm would die of it."""
        peer = stream.muxed_conn.peer_id
        try:
            if peer in self._greeted:
                self._announce_again(peer)
            self._greeted.add(peer)
            await self.continuously_read_stream(stream)
            return
        except MessageTooLarge as error:
            self._drop(PubsubDrop.FRAME_OVERSIZED, peer, error)
        except (DecodeError, ParseError) as error:
            self._drop(PubsubDrop.FRAME_MALFORMED, peer, error)
        except (IOException, RawConnError) as error:
            logger.debug("the stream of %s ended: %r", peer, error)
            return
        except Exception as error:
            self._drop(PubsubDrop.STREAM_FAILED, peer, error)
        finally:
            if not self._peer_is_connected(peer):
                self._greeted.discard(peer)
        with suppress(Exception):
            await stream.reset()

    async def continuously_read_stream(self, stream: INetStream) -> None:
        """Act on each frame of a stream. Raises what ends the stream, never what a frame asks."""
        peer = stream.muxed_conn.peer_id
        while self.manager.is_running:
            frame = await read_varint_prefixed_bytes_limited(stream, self.max_inbound_rpc_size)
            rpc = RPC()
            rpc.ParseFromString(frame)
            if self.trace is not None:
                self.trace.rpc_received(rpc, frame, peer)
            if not maybe_consume_signed_record(rpc, self.host, peer):
                self._drop(PubsubDrop.RECORD_INVALID, peer, "a peer record that is not its own")
                continue
            self._take_messages(peer, rpc)
            self._take_subscriptions(peer, rpc)
            if rpc.HasField("control"):
                try:
                    await self.router.handle_rpc(rpc, peer)
                except Exception as error:
                    self._drop(PubsubDrop.ROUTER_RAISED, peer, error)
                if self.trace is not None:
                    self.trace.look_at_mesh()
            if stream.metric_send_channel is not None:
                await stream.metric_send_channel.send(_event(peer, rpc, len(frame)))

    def _take_messages(self, peer: ID, rpc: RPC) -> None:
        for msg in rpc.publish:
            if not self._is_subscribed_to_msg(msg):
                continue
            if not all(isinstance(topic, str) for topic in msg.topicIDs):
                self._drop(PubsubDrop.TOPIC_UNREADABLE, peer, "a message")
            elif self._validating >= self.params.max_validating:
                self._drop(PubsubDrop.VALIDATION_FULL, peer, f"{self._validating} in validation")
                if self.trace is not None:
                    self.trace.rejected(msg, peer, "validation queue full")
            elif self.manager.is_running:
                self._validating += 1
                self.manager.run_task(self._push_received, peer, msg)

    def _take_subscriptions(self, peer: ID, rpc: RPC) -> None:
        if len(rpc.subscriptions) > self.max_subscriptions_per_rpc:
            self._drop(PubsubDrop.SUBSCRIPTIONS_TOO_MANY, peer, f"{len(rpc.subscriptions)} at once")
            return
        for subscription in rpc.subscriptions:
            if isinstance(subscription.topicid, str):  # protobuf gives bytes if not UTF-8
                self.handle_subscription(peer, subscription)
            else:
                self._drop(PubsubDrop.TOPIC_UNREADABLE, peer, "a subscription")

    # Messages

    async def _push_received(self, forwarder: ID, msg: Message) -> None:
        try:
            await self.push_msg(forwarder, msg)
        except Exception as error:
            accepted = False
            with suppress(Exception):  # it may be the message id function that raises
                accepted = self._is_msg_seen(msg)
            self._drop(
                PubsubDrop.ROUTER_RAISED if accepted else PubsubDrop.MESSAGE_UNVERIFIABLE,
                forwarder,
                error,
            )
        finally:
            self._validating -= 1

    async def push_msg(self, msg_forwarder: ID, msg: Message) -> None:
        """As in `Pubsub`, but each message id is accepted once, however many copies race."""
        if self._pushes is None:
            await self._push_once(msg_forwarder, msg)
        else:
            with self._pushes.follow(msg_forwarder, msg):
                await self._push_once(msg_forwarder, msg)

    async def _push_once(self, msg_forwarder: ID, msg: Message) -> None:
        with suppress(_AcceptedMeanwhile):
            if any(validator.is_async for validator in self.get_msg_validators(msg)):
                async with self._turn(msg):
                    await super().push_msg(msg_forwarder, msg)
            else:
                await super().push_msg(msg_forwarder, msg)

    @asynccontextmanager
    async def _turn(self, msg: Message) -> AsyncIterator[None]:
        """Let equal copies of a message into validation one after the other.

        A copy with the same id and other content doesn't wait: a forged one, which a slow
        validator is busy with, must not delay the true one.
        """
        key = blake2b(msg.SerializeToString(deterministic=True), digest_size=32).digest()
        lock = self._validation_turns.setdefault(key, trio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._validation_turns.pop(key, None)

    async def validate_msg(self, msg_forwarder: ID, msg: Message) -> None:
        """As in `Pubsub`, but a failure isn't remembered under the message's id.

        The next copy may have other content, come from a peer that the validator trusts more,
        or not run into a time-out.
        """
        try:
            await super().validate_msg(msg_forwarder, msg)
        except ValidationError:
            self.validation_cache._remove(self.get_message_id(msg))
            if self._pushes is not None:
                self._pushes.invalid(msg)
            raise

    def _mark_msg_seen(self, msg: Message) -> None:
        new = self.seen_messages.add(self.get_message_id(msg))
        if self._pushes is not None:
            (self._pushes.accepted if new else self._pushes.overtaken)(msg)
        if not new:
            raise _AcceptedMeanwhile

    # Subscriptions of the application

    async def subscribe(self, topic_id: str) -> ISubscriptionAPI:
        """As in `Pubsub`, with a buffer of `params.subscription_buffer` messages."""
        if topic_id in self.topic_ids:
            return self.subscribed_topics_receive[topic_id]
        send, receive = trio.open_memory_channel[Message](self.params.subscription_buffer)
        subscription = TrioSubscriptionAPI(receive, functools.partial(self.unsubscribe, topic_id))
        self.subscribed_topics_send[topic_id] = send
        self.subscribed_topics_receive[topic_id] = subscription
        if self.trace is not None:
            self.trace.joined(topic_id)
        packet, announcement = self._build_announce_rpc(topic_id, subscribe=True)
        await self.message_all_peers(packet.SerializeToString(), announce=announcement)
        await self.router.join(topic_id)
        return subscription

    async def unsubscribe(self, topic_id: str) -> None:
        """As in `Pubsub`; the topic's count in `lagging` goes with the subscription."""
        if self.trace is not None and topic_id in self.topic_ids:
            self.trace.left(topic_id)
        await super().unsubscribe(topic_id)
        if self.trace is not None:
            self.trace.look_at_mesh()
        self.lagging.pop(topic_id, None)

    def notify_subscriptions(self, publish_message: Message) -> None:
        """Hand a message to the subscriptions of its topics; where a buffer is full, count it."""
        for topic in publish_message.topicIDs:
            channel = self.subscribed_topics_send.get(topic)
            if channel is None:
                continue
            try:
                channel.send_nowait(publish_message)
            except (trio.WouldBlock, trio.BrokenResourceError):
                self.drops[PubsubDrop.SUBSCRIBER_SLOW] += 1
                self.lagging[topic] += 1
                if self.trace is not None:
                    self.trace.discarded(PubsubDrop.SUBSCRIBER_SLOW.value, topic=topic)
                if self._is_worth_a_line(self.lagging[topic]):
                    logger.warning(
                        "the subscription to %r doesn't keep up: %d messages dropped so far",
                        topic,
                        self.lagging[topic],
                    )

    # Streams that die while the connection lives

    def _handle_dead_peer(self, peer_id: ID) -> None:
        """As in `Pubsub`, but what a connected peer subscribed to outlives our stream to it.

        The peer announced them over its own stream, and doesn't repeat them while that one lives.
        """
        topics = self._topics_of(peer_id)
        super()._handle_dead_peer(peer_id)
        if self.trace is not None:
            self.trace.look_at_mesh()
        if not self._peer_is_connected(peer_id):
            self._greeted.discard(peer_id)
            self._resuming.discard(peer_id)
        elif topics:
            for topic in topics:
                self.peer_topics.setdefault(topic, set()).add(peer_id)
            self._peer_subscription_count[peer_id] = len(topics)
            self._resuming.add(peer_id)

    async def _handle_new_peer(self, peer_id: ID) -> None:
        await super()._handle_new_peer(peer_id)
        if peer_id in self._resuming and peer_id in self.peers:
            self._resuming.discard(peer_id)
            for topic in self._topics_of(peer_id):
                await self.router.on_peer_subscribed(peer_id, topic)

    def _topics_of(self, peer: ID) -> list[str]:
        return [topic for topic, peers in self.peer_topics.items() if peer in peers]

    def _announce_again(self, peer: ID) -> None:
        """Announce our subscriptions again to a peer that reopened its stream to us.

        Losing the old one, a peer that runs the stock class forgot it, and our own stream,
        over which it got them, never broke.
        """
        queue = self.peer_queues.get(peer)
        if queue is None or not self.topic_ids:
            return  # without a queue our stream is yet to be opened, with a hello
        if not queue.push(self.get_hello_packet()):
            for topic in self.topic_ids:
                self._schedule_announce_retry(peer, RPC.SubOpts(subscribe=True, topicid=topic))

    def _drop(self, reason: PubsubDrop, peer: ID, detail: object) -> None:
        self.drops[reason] += 1
        if self.trace is not None and reason not in _REJECTED:
            self.trace.discarded(reason.value, peer.to_bytes())
        if self._is_worth_a_line(self.drops[reason]):
            logger.warning(
                "dropped input from %s: %s (%d so far): %r",
                peer,
                reason.value,
                self.drops[reason],
                detail,
            )

    def _is_worth_a_line(self, count: int) -> bool:
        return (count - 1) % self.params.warn_every == 0


def _event(peer: ID, rpc: RPC, size: int) -> GossipsubEvent:
    event = GossipsubEvent()
    event.peer_id = peer.pretty()
    event.publish = bool(rpc.publish)
    event.subopts = bool(rpc.subscriptions)
    event.control = rpc.HasField("control")
    event.message_size = size
    return event
