"""`ResilientPubsub`: what it does otherwise than py-libp2p's class.

docs/pubsub.md has what py-libp2p 0.8.1's own class does in each case, and what this one does.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from contextlib import nullcontext, suppress
from functools import partial
from hashlib import blake2b
from inspect import isawaitable, iscoroutine
from typing import Any, cast

import trio
from google.protobuf.message import DecodeError
from libp2p.abc import IHost, INetStream, IPubsubRouter
from libp2p.custom_types import SyncValidatorFn, ValidatorFn
from libp2p.exceptions import ParseError, ValidationError
from libp2p.io.exceptions import IOException, MessageTooLarge
from libp2p.network.connection.exceptions import RawConnError
from libp2p.network.exceptions import SwarmException
from libp2p.peer.id import ID
from libp2p.peer.peerstore import env_to_send_in_RPC
from libp2p.pubsub.pb.rpc_pb2 import RPC, Message
from libp2p.pubsub.pubsub import ValidationCache, ValidationResult
from libp2p.pubsub.rpc_queue import OutBoundQueueSize, RpcQueue
from libp2p.tools.timed_cache.last_seen_cache import LastSeenCache

from episub_router.hooked_pubsub import HookedPubsub
from episub_router.publishing import (
    PublishGate,
    PublishTimeout,
    check_message_size,
    check_one_pubsub,
)
from episub_router.pubsub.acceptance import fault_of
from episub_router.pubsub.drops import REJECTED, PubsubDrop
from episub_router.pubsub.frames import FrameOverdue, FrameReader
from episub_router.pubsub.inbound import InboundFrames, OutOfBudgetError
from episub_router.pubsub.params import PubsubParams
from episub_router.pubsub.policy import SignaturePolicy, pubsub_options
from episub_router.pubsub.subscription import Subscription
from episub_router.pubsub.traffic import TrafficCount
from episub_router.pubsub.validation_queue import ValidationQueue
from episub_router.pubsub.validators import Costs, Validators
from episub_router.pubsub.writing import is_broken, without_state, write_all
from episub_router.trace.node import NodeTrace
from episub_router.trace.node.pushing import Pushes
from episub_router.trace.node.queues import TracedQueues
from episub_router.trace.tracer import Tracer
from episub_router.util.bounded import put_last
from episub_router.util.checks import check_seconds, check_type
from episub_router.util.connections import is_connected
from episub_router.util.keyed_locks import KeyedLocks
from episub_router.util.own_readers import OwnReaders
from episub_router.util.trio_only import check_not_asyncio
from episub_router.wire import check_topics

logger = logging.getLogger(__name__)


_VALIDATIONS_AT_ONCE = 20
"""Chosen: py-libp2p has 10, and so has a peer alone here."""

_LEAST_WAIT = 0.001
"""Seconds that a router is waited for once the readers here have taken the whole time-out."""

_ENDED = {
    MessageTooLarge: PubsubDrop.FRAME_OVERSIZED,
    OutOfBudgetError: PubsubDrop.FRAME_UNAFFORDABLE,
    FrameOverdue: PubsubDrop.FRAME_OVERDUE,
    DecodeError: PubsubDrop.FRAME_MALFORMED,
    ParseError: PubsubDrop.FRAME_MALFORMED,
}
"""For what a stream is reset."""

_MAX_LEFT = 1024
"""Topics remembered that the application left. Chosen: ten times as many as a peer may be in."""


class SeenBefore(Exception):
    """Another copy of the message passed validation while this one was in it."""


class _SeenOnce(LastSeenCache):
    """Ids of accepted messages, of which each is added once."""

    def add(self, key: bytes) -> bool:
        """Raises SeenBefore for an id that is there."""
        if not super().add(key):
            raise SeenBefore
        return True


class _ValidCache(ValidationCache):
    """Results of validation without failures: the next copy may have other content, come from a
    peer that the validator trusts more, or not run into a time-out."""

    def put(self, msg_id: bytes, result: ValidationResult) -> None:
        if result.is_valid:
            super().put(msg_id, result)


def _nothing(*_: object) -> None:
    """For routers that aren't notified."""


def _validity(validator: SyncValidatorFn, forwarder: ID, msg: Message) -> bool:
    valid: Any = validator(forwarder, msg)
    if isawaitable(valid):
        if iscoroutine(valid):
            valid.close()
        raise TypeError(f"the validator {validator!r} must be a coroutine function to be awaited")
    return bool(valid)


class ResilientPubsub(HookedPubsub):
    """py-libp2p's `Pubsub` for any router, less the ways in which a peer can take it down.

    `options` are the keyword arguments of `Pubsub`. `drops` counts what was dropped, by
    reason; `lagging` counts the `SUBSCRIBER_SLOW` drops by topic, for the topics that are
    subscribed now. `signature_policy` says what messages carry; by default they are signed, as
    `strict_signing` has it. `tracer` (by default the router's, if it has one) gets what happens
    here, and `trace` is where others can add to it. Everything else is the interface of `Pubsub`.
    """

    opens_one_stream = True
    """For routers: `ensure_peer_stream` waits for a stream that is being opened."""

    def __init__(
        self,
        host: IHost,
        router: IPubsubRouter,
        *,
        params: PubsubParams | None = None,
        tracer: Tracer | None = None,
        signature_policy: SignaturePolicy | None = None,
        **options: Any,
    ) -> None:
        check_type("params", params, PubsubParams, optional=True)
        check_type("tracer", tracer, Tracer, optional=True)
        check_type("signature_policy", signature_policy, SignaturePolicy, optional=True)
        check_one_pubsub(host, router.get_protocols())
        options = pubsub_options(signature_policy, options)
        self.signature_policy = signature_policy
        self.params = params or PubsubParams()
        self.trace: NodeTrace | None = None
        self._pushes: Pushes | None = None
        self.drops: Counter[PubsubDrop] = Counter()
        self.lagging: Counter[str] = Counter()
        self._inbound: dict[ID, FrameReader] = {}
        """Of each peer the newest stream."""
        self._copies: KeyedLocks[bytes] = KeyedLocks()
        """Held while a copy of a message is validated, by its content: a forged one, which a slow
        validator is busy with, doesn't delay the true one."""
        self._greeted: set[ID] = set()  # peers that opened such a stream since they connected
        self._resuming: set[ID] = set()  # peers that kept their subscriptions over a lost stream
        self._left: dict[str, None] = {}
        """Topics that were subscribed before; the oldest is forgotten first."""
        self._opening: KeyedLocks[ID] = KeyedLocks()
        """Held while a stream to a peer is opened."""
        self._unsent: dict[ID, RpcQueue] = {}
        """What a connected peer's last stream left, for its next one; two queues' worth."""
        at_once = options.setdefault("max_concurrent_validator_count", _VALIDATIONS_AT_ONCE)
        costs = Costs(self.params)
        self._validators = Validators(
            ValidationQueue(self.params.max_validating, self.params.max_validating_bytes, at_once),
            costs,
            self._push_received,
        )
        self._frames = InboundFrames(
            self,
            self.params,
            costs,
            self._validators,
            self._drop,
            self._refuse,
            signature_policy is not SignaturePolicy.STRICT_NO_SIGN,
        )
        super().__init__(host, router, **{"seen_ttl": self.params.seen_ttl, **options})
        self._own_readers = OwnReaders(cast(Any, self.subscribed_topics_send))
        self.seen_messages.stop()
        self.seen_messages = _SeenOnce(self.seen_messages.ttl, self.seen_messages.sweep_interval)
        old = self.validation_cache
        self.validation_cache = _ValidCache(old.ttl, old.max_size)
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
        self._frames.trace = self.trace
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
        except Exception as error:
            reason = next((why for kind, why in _ENDED.items() if isinstance(error, kind)), None)
            if reason is None and isinstance(error, IOException | RawConnError):
                logger.debug("the stream of %s ended: %r", peer, error)
                return
            self._drop(reason or PubsubDrop.STREAM_FAILED, peer, error)
            with suppress(Exception):
                await stream.reset()
        finally:
            if not is_connected(self.host, peer):
                self._greeted.discard(peer)

    async def continuously_read_stream(self, stream: INetStream) -> None:
        """Act on each frame of a stream, in place of the peer's older one. Raises what ends the
        stream, never what a frame asks."""
        peer = stream.muxed_conn.peer_id
        older = self._inbound.get(peer)
        reader = FrameReader(stream, self.max_inbound_rpc_size, self._frames.unfinished)
        self._inbound[peer] = reader
        if older is not None:
            self._drop(PubsubDrop.STREAM_SUPERSEDED, peer, "it opened another")
            self.manager.run_task(older.end)
        try:
            await self._frames.read(reader)
        finally:
            if self._inbound.get(peer) is reader:
                del self._inbound[peer]

    # Messages

    @property
    def traffic(self) -> TrafficCount:
        """Bytes by kind, and how long messages took from their arrival to their acceptance."""
        return self._validators.traffic

    @property
    def validating(self) -> int:
        """Messages of peers in validation, or waiting for it."""
        return len(self._validators.queue)

    async def run(self) -> None:
        """The service: as in `Pubsub`, with the tasks that validate messages."""
        self.manager.run_daemon_task(self._validators.run)
        await super().run()

    def take_assembled(self, forwarder: ID, msg: Message) -> None:
        """Validate `msg`, which the router put together from pieces; its author answers for it."""
        if self.topic_ids.isdisjoint(msg.topicIDs):
            return
        reason = fault_of(msg, authored=self._frames.authored)
        if reason is None:
            if self._validators.put_assembled(forwarder, msg):
                return
            reason = PubsubDrop.VALIDATION_FULL
        self._drop(reason, forwarder, "a message in pieces")
        self._refuse(forwarder, msg)

    # Messages of this node

    async def publish(
        self,
        topic_id: str | list[str],
        data: bytes,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (it raises an error of its own)
    ) -> None:
        """As in `Pubsub`, but wait until the router has room, if it has a say in it, and while
        readers of this node's own subscriptions to the topics are behind and go on reading.

        `timeout` is in seconds; by default the router's, `RouterParams.publish_timeout`. Raises
        MessageTooLarge, PublishTimeout, RouterNotRunning, TypeError and ValueError, all of them
        before the message is delivered anywhere.
        """
        check_not_asyncio()
        topics = [topic_id] if isinstance(topic_id, str) else list(topic_id)
        for topic in topics:
            check_type("a topic", topic, str)
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data must be bytes, not {type(data).__name__}")
        if timeout is not None:
            check_seconds("timeout", timeout)
        since = trio.current_time()
        if timeout != 0:
            with trio.move_on_after(math.inf if timeout is None else timeout):
                await self._own_readers.wait(topics)
        # What is left of it; 0 would raise another error.
        timeout = timeout and max(since + timeout - trio.current_time(), _LEAST_WAIT)
        router: Any = self.router
        gated = isinstance(router, PublishGate)
        room = router.room_to_publish(topics, len(data), timeout) if gated else nullcontext()
        try:
            async with room:
                await self.send_message(topics, bytes(data))
        except PublishTimeout as error:
            waited = trio.current_time() - since  # for its own readers, too
            raise PublishTimeout(f"{error}; waited {waited:.1f} s") from None

    async def publish_nowait(self, topic_id: str | list[str], data: bytes) -> None:
        """As `publish`, but raise BacklogFull instead of waiting for room.

        It still waits for asynchronous validators of the topic.
        """
        await self.publish(topic_id, data, timeout=0)

    async def send_message(self, topics: list[str], data: bytes) -> None:
        """Make the message and send it, whether there is room or not."""
        if self.signature_policy is SignaturePolicy.STRICT_NO_SIGN:
            await self.push_msg(self.my_id, Message(data=data, topicIDs=topics))
        else:
            await super().publish(topics, data)

    # Messages of all nodes

    async def _push_received(self, forwarder: ID, msg: Message) -> None:
        try:
            await self.push_msg(forwarder, msg)
        except Exception as error:
            accepted = False
            with suppress(Exception):  # it may be the message id function that raises
                accepted = self.seen_messages.has(self.get_message_id(msg))
            self._drop(
                PubsubDrop.ROUTER_RAISED if accepted else PubsubDrop.MESSAGE_UNVERIFIABLE,
                forwarder,
                error,
            )
        finally:
            if self._is_refused(forwarder, msg):
                forged = self._validators.refused(msg) if self.strict_signing else False
                self._refuse(forwarder, msg, forged)

    def _refuse(self, forwarder: ID, msg: Message, forged: bool = False) -> None:
        """Notify a router that asks for it of a copy that isn't accepted."""
        payload_rejected = getattr(self.router, "payload_rejected", None)
        if payload_rejected is not None:
            payload_rejected(forwarder, msg, forged)

    def _is_refused(self, forwarder: ID, msg: Message) -> bool:
        """Whether no copy of `msg` was accepted, and that isn't for its peers' names."""
        if any(map(self.is_peer_blacklisted, (forwarder, ID(msg.from_id)))):
            return False
        try:
            return not self.seen_messages.has(self.get_message_id(msg))
        except Exception:  # of the message id function
            return False

    async def push_msg(self, msg_forwarder: ID, msg: Message) -> None:
        """As in `Pubsub`, but each message id is accepted once, however many copies race. Raises
        MessageTooLarge for a message of this node that doesn't fit."""
        if self._pushes is None:
            await self._push_once(msg_forwarder, msg)
        else:
            with self._pushes.follow(msg_forwarder, msg):
                await self._push_once(msg_forwarder, msg)

    async def _push_once(self, msg_forwarder: ID, msg: Message) -> None:
        if msg_forwarder == self.my_id:
            check = partial(check_message_size, rpc_size=self.max_inbound_rpc_size)
            getattr(self.router, "check_message_size", check)(msg)
        try:
            if any(validator.is_async for validator in self.get_msg_validators(msg)):
                content = msg.SerializeToString(deterministic=True)
                async with self._copies.held(blake2b(content, digest_size=32).digest()):
                    await super().push_msg(msg_forwarder, msg)
            else:
                await super().push_msg(msg_forwarder, msg)
        except SeenBefore:
            if self._pushes is not None:
                self._pushes.overtaken(msg)

    def set_topic_validator(
        self, topic: str, validator: ValidatorFn, is_async_validator: bool
    ) -> None:
        """As in `Pubsub`, but a synchronous validator that returns an awaitable refuses the
        message with a TypeError; there it accepts all, since an awaitable is true."""
        if not is_async_validator:
            validator = partial(_validity, cast(SyncValidatorFn, validator))
        super().set_topic_validator(topic, validator, is_async_validator)

    async def validate_msg(self, msg_forwarder: ID, msg: Message) -> None:
        """As in `Pubsub`; what comes of it is traced."""
        self._validators.verified(msg)
        try:
            await super().validate_msg(msg_forwarder, msg)
        except ValidationError:
            if self._pushes is not None:
                self._pushes.invalid(msg)
            raise

    # Subscriptions of the application

    async def subscribe(self, topic_id: str, *, history: bool | None = None) -> Subscription:
        """As in `Pubsub`, with a buffer of `params.subscription_buffer` messages and 64 MiB.

        An `EpisubRouter` may bring the last messages from before, in any order. With `history`
        False, which is the default for a topic that was left before, it doesn't ask for them: for
        its first four seconds it takes only what is pushed, and large ones, which may be three
        seconds old.

        Raises TypeError or ValueError for a topic that no frame can carry.
        """
        check_not_asyncio()
        check_type("topic_id", topic_id, str)
        check_type("history", history, bool, optional=True)
        check_topics([topic_id])
        subscribed = self.subscribed_topics_receive.get(topic_id)
        if isinstance(subscribed, Subscription):
            return subscribed
        subscription = Subscription(
            self.params.subscription_buffer, partial(self.unsubscribe, topic_id)
        )
        self.subscribed_topics_send[topic_id] = cast(Any, subscription.send_channel)
        self.subscribed_topics_receive[topic_id] = subscription
        if self.trace is not None:
            self.trace.joined(topic_id)
        announcement = RPC.SubOpts(subscribe=True, topicid=topic_id)
        record, _ = env_to_send_in_RPC(self.host)
        packet = RPC(subscriptions=[announcement], senderRecord=record)
        await self.message_all_peers(packet.SerializeToString(), announce=announcement)
        if history is None:
            history = topic_id not in self._left
        if not history:
            getattr(self.router, "leave_out_history", _nothing)(topic_id)
        await self.router.join(topic_id)
        return subscription

    async def unsubscribe(self, topic_id: str) -> None:
        """As in `Pubsub`; the topic's count in `lagging` goes with the subscription."""
        check_not_asyncio()
        if topic_id in self.topic_ids:
            put_last(self._left, topic_id, None, _MAX_LEFT)
            if self.trace is not None:
                self.trace.left(topic_id)
        await super().unsubscribe(topic_id)
        if self.trace is not None:
            self.trace.look_at_mesh()
        self.lagging.pop(topic_id, None)

    def notify_subscriptions(self, publish_message: Message) -> None:
        """Hand a message, which was accepted just now, to the subscriptions of its topics; where a
        buffer is full, count it."""
        self._validators.accepted(publish_message)
        if self._pushes is not None:
            self._pushes.accepted(publish_message)
        for topic in publish_message.topicIDs:
            subscription = self.subscribed_topics_receive.get(topic)
            if isinstance(subscription, Subscription) and not subscription.put(publish_message):
                self.drops[PubsubDrop.SUBSCRIBER_SLOW] += 1
                self.lagging[topic] += 1
                if self.trace is not None:
                    self.trace.discarded(PubsubDrop.SUBSCRIBER_SLOW.value, topic=topic)
                if self._is_worth_a_line(self.lagging[topic]):
                    getattr(self.router, "reader_behind", _nothing)(topic, self.lagging[topic])
                    logger.warning(
                        "the subscription to %r doesn't keep up: %d messages dropped so far",
                        topic,
                        self.lagging[topic],
                    )

    # Streams that die while the connection lives

    def lose_peer_stream(self, peer_id: ID, *, keep_subscriptions: bool = False) -> None:
        """As in `Pubsub`, but what a connected peer subscribed to outlives our stream to it.

        The peer announced them over its own stream, and doesn't repeat them while that one lives.
        """
        connected = is_connected(self.host, peer_id)
        super().lose_peer_stream(peer_id, keep_subscriptions=connected or keep_subscriptions)
        if self.trace is not None:
            self.trace.look_at_mesh()
        if not connected:
            self._greeted.discard(peer_id)
            self._resuming.discard(peer_id)
            self._unsent.pop(peer_id, None)
        elif self._topics_of(peer_id):
            self._resuming.add(peer_id)

    async def handle_sending_messages(
        self, peer_id: ID, stream: INetStream, queue: RpcQueue
    ) -> None:
        """As in `Pubsub`, with one write for what waits, after what the last stream left."""
        left, batch = self._unsent.pop(peer_id, None), list[RPC]()
        try:
            if left is not None:  # once: the peer may have reset the last stream because of it
                await write_all(left, stream, self.traffic.sent, [])
            await write_all(queue, stream, self.traffic.sent, batch)
        except Exception as error:
            logger.debug("the stream to %s ended: %r", peer_id, error)
            # In a task of trio's: the manager would make the next stream's tasks children of this
            # one, which then waits for them, and so on with each stream.
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stream_failed, peer_id, queue, batch)

    async def _stream_failed(self, peer_id: ID, queue: RpcQueue, batch: list[RPC]) -> None:
        """Lose a stream, unless it was replaced, and keep for the next one what it didn't send:
        `batch`, which may have arrived, and what is in `queue`."""
        if not queue.closed:
            self.lose_peer_stream(peer_id)
        if not is_connected(self.host, peer_id) or peer_id in self.peers:
            return
        while len(queue) and (rpc := await queue.pop()) is not None:
            batch.append(rpc)
        left = self._unsent[peer_id] = RpcQueue(2 * OutBoundQueueSize)
        for rpc in filter(RPC.ByteSize, map(without_state, batch)):
            left.push(rpc)
        left.close()

    async def handle_dead_peer_queue(self) -> None:
        """As in `Pubsub`, but a peer that is back when its loss is looked at gets a new stream,
        where the one that it had is on the connection that closed."""
        async with self.dead_peer_receive_channel:
            self.event_handle_dead_peer_queue_started.set()
            async for peer in self.dead_peer_receive_channel:
                if not is_connected(self.host, peer) or is_broken(self.peers.get(peer)):
                    self.lose_peer_stream(peer)

    async def open_peer_stream(self, peer_id: ID) -> None:
        """As in `Pubsub`, but one after the other: two hosts that dial each other at once have two
        connections, and what was queued for the first of two streams would be lost."""
        async with self._opening.held(peer_id):
            if not is_connected(self.host, peer_id):
                raise SwarmException("it has hung up")  # py-libp2p would dial it
            if is_broken(self.peers.get(peer_id)):
                self.lose_peer_stream(peer_id)
            await super().open_peer_stream(peer_id)
            queue = self.peer_queues.get(peer_id)
            if queue is not None:
                # Made with py-libp2p's default; one that takes large messages sends them, too.
                queue.max_message_size = self.max_inbound_rpc_size
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
                self.announce_later(peer, topic)

    def _drop(self, reason: PubsubDrop, peer: ID, detail: object) -> None:
        self.drops[reason] += 1
        if self.trace is not None and reason not in REJECTED:
            self.trace.discarded(reason.value, peer.to_bytes())
        # Streams are replaced while hosts connect, and break while they stop.
        usual = reason in (PubsubDrop.STREAM_SUPERSEDED, PubsubDrop.STREAM_FAILED)
        count = self.drops[reason]
        logger.log(
            logging.DEBUG if usual or not self._is_worth_a_line(count) else logging.WARNING,
            "dropped input from %s: %s (%d so far): %r",
            peer,
            reason.value,
            count,
            detail,
        )

    def _is_worth_a_line(self, count: int) -> bool:
        return (count - 1) % self.params.warn_every == 0
