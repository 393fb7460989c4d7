"""/sds/store: requests on a stream, one after another, each answered from the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import trio
from libp2p.abc import IHost, INetStream
from libp2p.io.exceptions import IncompleteReadError
from libp2p.network.stream.exceptions import StreamEOF
from libp2p.peer.id import ID
from libp2p.utils.varint import encode_varint_prefixed

from episub_router.sds.net.access import StoreAccess
from episub_router.sds.net.calls import (
    MANY,
    Call,
    IncomingFrames,
    carry,
    quiet_close,
    quiet_reset,
)
from episub_router.sds.net.limiter import RequestLimiter
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.effects import Response, ResponseStatus
from episub_router.sds.protocol.entry import StoredMessage
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.participant import Participant
from episub_router.sds.protocol.snapshots import Agreed
from episub_router.sds.store.sqlite import SqliteStore
from episub_router.sds.store.values import first_that_fit
from episub_router.sds.wire.codec import SdsWireError
from episub_router.sds.wire.exchange import (
    MAX_REQUEST,
    Request,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from episub_router.util.kept import one_for_each

_SERVE_TIMEOUT = 20.0
_TOGETHER = 65_536
"""Bytes of answers that are sent together, where several requests came together (chosen)."""
IDLE = 60.0
"""Seconds without a request after which the side that answers ends a stream (chosen)."""
MOST_STREAMS = 16
"""Streams of a peer that may wait for a further request; we open one, and one more where it ended
(chosen)."""


class ExchangeError(Exception):
    """A peer gave no usable answer; the message says why."""


Authorizer: TypeAlias = Callable[[ID, str, str], bool]
"""Whether a peer may read the log of this channel of this topic over a direct stream."""


class Served(Protocol):
    """A channel that can be asked."""

    topic_name: str
    channel_id: str
    store_key: str
    access: StoreAccess
    params: SdsParams
    authorize: Authorizer | None
    participant: Participant


class ExchangeServer:
    """Answers for all channels of a host. Requests beyond a peer's rate wait for their time."""

    def __init__(self, host: IHost) -> None:
        host.set_stream_handler(MANY, self._handle)
        self._channels: dict[tuple[str, str], Served] = {}
        self._limiter = RequestLimiter()
        self.open_streams: Counter[ID] = Counter()
        """By peer, those that are open."""
        self.counts: Counter[str] = Counter()

    @property
    def channels(self) -> int:
        """How many there are."""
        return len(self._channels)

    def add(self, channel: Served) -> None:
        self._channels[channel.topic_name, channel.channel_id] = channel

    def remove(self, channel: Served) -> None:
        self._channels.pop((channel.topic_name, channel.channel_id), None)

    async def _handle(self, stream: INetStream) -> None:
        # An exception out of a stream handler takes the whole host down.
        within, first = _SERVE_TIMEOUT, True
        peer = stream.muxed_conn.peer_id
        self.open_streams[peer] += 1
        try:
            frames = IncomingFrames(stream)
            while await self._serve(stream, frames, within, first=first):
                if self.open_streams[peer] > MOST_STREAMS:
                    break
                within, first = IDLE, False
        except trio.TooSlowError:
            self.counts["timeout" if first else "idle"] += 1
            await quiet_reset(stream)
            return
        except Exception:
            self.counts["broken-stream"] += 1
            await quiet_reset(stream)
            return
        finally:
            self.open_streams -= Counter((peer,))  # and forgets what there is none of
        await quiet_close(stream)

    async def _serve(
        self, stream: INetStream, frames: IncomingFrames, within: float, *, first: bool
    ) -> bool:
        """Answer a request, and those that came with it; False where there is no further one, or
        what came is no request.

        Raises TooSlowError where none comes in time.
        """
        try:
            with trio.fail_after(within):  # a reset wakes no reader of py-libp2p
                data = await frames.next(MAX_REQUEST)
        except (StreamEOF, IncompleteReadError):
            if first:
                raise
            return False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_late, stream)
            answers, good = await self._framed_answer(stream, data)
            while good and len(answers) < _TOGETHER and frames.has_next():
                data = await frames.next(MAX_REQUEST)
                further, good = await self._framed_answer(stream, data)
                answers += further
            await stream.write(answers)
            nursery.cancel_scope.cancel()
        return good

    async def _framed_answer(self, stream: INetStream, data: bytes) -> tuple[bytes, bool]:
        """An answer, and whether it answers a request."""
        peer = stream.muxed_conn.peer_id
        response = await self._answer(peer, data)
        self.counts[response.status.name] += 1
        good = response.status is not ResponseStatus.BAD_REQUEST
        answer = encode_varint_prefixed(encode_response(response))
        self._limiter.served(peer.to_base58(), len(answer), listed(response), trio.current_time())
        return answer, good

    async def _end_late(self, stream: INetStream) -> None:
        await trio.sleep(_SERVE_TIMEOUT)
        self.counts["timeout"] += 1
        await quiet_reset(stream)  # a write ends by that

    async def _answer(self, peer: ID, data: bytes) -> Response:
        name_of_peer = peer.to_base58()
        try:
            request = decode_request(data, name_of_peer)
        except SdsWireError as error:
            return Response(ResponseStatus.BAD_REQUEST, str(error))
        name = (request.topic, request.channel_id)
        while wait := self._limiter.wait(name_of_peer, trio.current_time()):
            if self.open_streams[peer] > MOST_STREAMS:
                raise ConnectionError("too many streams for their requests to wait")
            self.counts["waited"] += 1
            await trio.sleep(wait)
        channel = self._channels.get(name)
        if channel is None:
            return Response(
                ResponseStatus.UNKNOWN_CHANNEL,
                f"no channel {request.channel_id!r} of topic {request.topic!r} here",
            )
        if channel.authorize is not None and not channel.authorize(peer, *name):
            return Response(
                ResponseStatus.NOT_AUTHORIZED, "this channel's log is not for this peer"
            )
        if isinstance(request.ask, fx.AskCompare):
            log = channel.participant.log
            hashed = sum(log.size(r.after, r.until) for r in request.ask.ranges)
            self._limiter.served(name_of_peer, hashed, 0, trio.current_time())
        return await _look_up(channel, request.ask)


server_of = one_for_each(ExchangeServer)


def listed(response: Response) -> int:
    """How many messages, ids and parts of a log an answer has."""
    compared = response.comparison
    parts = len(compared.parts) + len(compared.keys) if compared else 0
    return len(response.items) + len(response.unknown_ids) + parts


async def _look_up(channel: Served, ask: fx.Ask) -> Response:
    store, key, participant = channel.access.store, channel.store_key, channel.participant
    if isinstance(ask, fx.AskCompare):
        count = await channel.access.run(lambda: store.count(key))
        return Response(comparison=channel.participant.compare(ask, count, trio.current_time()))
    waiting = participant.waiting(ask.ids) if isinstance(ask, fx.AskIds) else []
    agreed = participant.snapshots.agreed(ask.signers) if isinstance(ask, fx.AskSnapshot) else []
    return await channel.access.run(
        lambda: look_up(store, key, channel.params, ask, waiting, agreed)
    )


def look_up(
    store: SqliteStore,
    key: str,
    params: SdsParams,
    ask: fx.AskIds | fx.AskRange | fx.AskSnapshot,
    waiting: Sequence[StoredMessage] = (),
    agreed: Sequence[Agreed] = (),
) -> Response:
    """Answer from a store, with no more than `page_items` and `page_bytes`.

    `waiting` are those asked for that we have, and that wait for others.
    """
    if isinstance(ask, fx.AskSnapshot):
        for each in agreed:
            part = store.snapshot_part(key, each.until, each.digest, ask.offset, params.page_bytes)
            if part is not None:
                signed = store.get(key, each.statements, params.page_bytes)[: ask.signers]
                return Response(items=tuple(signed), state=part[0], state_size=part[1])
        return Response()
    if isinstance(ask, fx.AskRange):
        most = min(ask.limit, params.page_items)
        page, more = store.page(
            key,
            ask.after,
            ask.until,
            most,
            params.page_bytes,
            newest_first=ask.newest_first,
            ids_only=ask.ids_only,
        )
        last = page[-1].key if more else None
        return Response(items=tuple(page), next=last)
    found = store.get(key, ask.ids, params.page_bytes)
    had = {s.key[1] for s in waiting}
    # What doesn't fit is neither sent nor unknown: it is asked for again.
    items, _ = first_that_fit([*found, *waiting], len(ask.ids), params.page_bytes)
    return Response(
        items=tuple(items),
        unknown_ids=tuple(i for i in store.lacked(key, ask.ids) if i not in had),
        gone=store.gone(key),
    )


async def ask(host: IHost, peer: ID, request: Request, *, within: float, max_size: int) -> Response:
    """Ask `peer`, waiting at most `within` s. Raises ExchangeError."""
    call = Call(encode_varint_prefixed(encode_request(request)), max_size)
    carry(host, peer, call)
    try:
        with trio.fail_after(within):
            await call.done.wait()
    except trio.TooSlowError as error:
        raise ExchangeError(f"{peer}: no answer within {within:.1f} s") from error
    finally:
        call.leave()
    if call.error is not None:
        name = type(call.error).__name__
        raise ExchangeError(f"{peer}: {name}: {call.error}") from call.error
    try:
        response = decode_response(call.data)
    except SdsWireError as error:
        raise ExchangeError(f"{peer}: {error}") from error
    if response.status is not ResponseStatus.OK:
        raise ExchangeError(f"{peer}: {response.status.name}: {response.reason}")
    return response
