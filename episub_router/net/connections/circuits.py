"""Connections through relays (libp2p circuit relay v2), to and from hosts that can't be dialled.

py-libp2p has the protocol, and leaves such addresses out of its own dials.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio
from libp2p.abc import IHost, INetStream
from libp2p.connection_types import ConnectionType
from libp2p.network.connection.raw_connection import RawConnection
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo, info_from_p2p_addr
from libp2p.relay.circuit_v2.pb.circuit_pb2 import HopMessage, PeerId, Status
from libp2p.relay.circuit_v2.protocol import PROTOCOL_ID, CircuitV2Protocol
from libp2p.relay.circuit_v2.utils import read_delimited_msg, write_delimited_msg
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr
from multiaddr.exceptions import ProtocolLookupError

from episub_router.util.connections import is_connected
from episub_router.util.errors import single

logger = logging.getLogger(__name__)

_RESERVE_TIMEOUT = 10.0
"""Seconds for a connection to a relay and its answer; chosen: as long as a peer's stream may
take."""

_AGAIN_AFTER = 5.0
"""Seconds until a relay is asked again that gave no place."""

_LOOK_INTERVAL = 1.0
"""Seconds between two looks whether a relay is connected."""

_SHORTEST_STAY = 60.0
"""Seconds that a place is held at least, whatever the clocks of the two machines say."""

_RESET_TIMEOUT = 1.0
"""Seconds that a stream has to say that it ends."""

Dial = Callable[[Multiaddr, ID], Awaitable[object]]


class RelayRefused(Exception):
    """A relay is there, and makes no circuit."""


def relay_of(address: Multiaddr) -> PeerInfo:
    """The relay of a circuit address, and where it is; raises an error where that isn't said."""
    return info_from_p2p_addr(Multiaddr(str(address).partition("/p2p-circuit")[0]))


async def dial_circuit(host: IHost, address: Multiaddr, target: ID, dial_relay: Dial) -> None:
    """Connect to `target` through the relay in `address`, which is dialled if it isn't connected.
    Raises RelayRefused if the relay refuses, and whatever py-libp2p does."""
    relay = relay_of(address)
    if relay.peer_id == host.get_id():
        raise RelayRefused("this node would be the relay itself")
    if not is_connected(host, relay.peer_id):
        await dial_relay(relay.addrs[0], relay.peer_id)
    wish = HopMessage(type=HopMessage.CONNECT, peer=PeerId(id=target.to_bytes()))
    async with _asked(host, relay.peer_id, wish) as (stream, _):
        upgrade: Any = host.upgrade_outbound_connection
        await upgrade(RawConnection(stream, True, ConnectionType.RELAYED, [address]), target)


@asynccontextmanager
async def _asked(
    host: IHost, relay: ID, wish: HopMessage
) -> AsyncIterator[tuple[INetStream, HopMessage]]:
    """A stream to `relay` on which it has granted `wish`, and its answer. Where the body raises,
    the stream ends."""
    stream = await host.new_stream(relay, [PROTOCOL_ID])
    try:
        await write_delimited_msg(stream, wish)
        answer = await read_delimited_msg(stream, HopMessage)
        if answer.status != Status.OK:
            known = answer.status in Status.values()
            reason = Status.Name(answer.status) if known else answer.status
            raise RelayRefused(f"the relay {relay} answered {reason}")
        yield stream, answer
    except BaseException:
        with suppress(Exception), trio.CancelScope(shield=True), trio.move_on_after(_RESET_TIMEOUT):
            await stream.reset()
        raise


class RelayPlaces:
    """Places at relays, through which others reach a host."""

    def __init__(self, relays: Sequence[Multiaddr]) -> None:
        """At each of `relays`, circuit addresses without a target."""
        self._relays = relays
        self._held: dict[Multiaddr, None] = {}

    @property
    def addresses(self) -> list[Multiaddr]:
        """Those at which the host can be reached now."""
        return list(self._held)

    @asynccontextmanager
    async def kept(self, host: IHost) -> AsyncIterator[None]:
        """Take the places, and keep them around the body. Raises OSError if a relay gives none at
        the start; later it is asked again and again."""
        if not self._relays:
            yield
            return
        taken = {}
        for relay in self._relays:
            try:
                with trio.fail_after(_RESERVE_TIMEOUT):
                    taken[_CircuitAddress(relay)] = await _reserve(host, relay)
            except Exception as error:  # whatever goes wrong at the relay or on the way
                raise OSError(f"can't listen on {relay}: {_reason(error)}") from error
        self._held = dict.fromkeys(taken)
        async with background_trio_service(CircuitV2Protocol(host)), trio.open_nursery() as nursery:
            for address, seconds in taken.items():
                nursery.start_soon(self._keep, host, address, seconds)
            yield
            nursery.cancel_scope.cancel()

    async def _keep(self, host: IHost, address: Multiaddr, seconds: float) -> None:
        """Renew the place at `address`, which is held for `seconds`, or take it again when the
        relay was gone."""
        relay = relay_of(address).peer_id
        while True:
            if seconds:
                if address not in self._held:
                    self._held[address] = None
                    logger.info("others reach this node over %s again", address)
                with trio.move_on_after(seconds / 2):
                    await trio.sleep(_LOOK_INTERVAL)
                    while is_connected(host, relay):  # noqa: ASYNC110 (no event of one peer's)
                        await trio.sleep(_LOOK_INTERVAL)
            else:
                await trio.sleep(_AGAIN_AFTER)
            try:
                with trio.fail_after(_RESERVE_TIMEOUT):
                    seconds = await _reserve(host, address)
            except Exception as error:
                seconds = 0.0
                if address in self._held:
                    logger.warning("nobody reaches this node over %s: %s", address, _reason(error))
                    del self._held[address]


async def _reserve(host: IHost, address: Multiaddr) -> float:
    """Take or renew a place; for how many seconds it is held."""
    relay, network = relay_of(address), host.get_network()
    if not is_connected(host, relay.peer_id):
        dial: Any = network.dial_addr
        await dial(relay.addrs[0], relay.peer_id)
    network.protect(relay.peer_id, "relay")
    async with _asked(host, relay.peer_id, HopMessage(type=HopMessage.RESERVE)) as (stream, answer):
        await stream.close()
    # The relay says when it ends, on its own clock, which may be wrong.
    return max(_SHORTEST_STAY, answer.reservation.expire - time.time())


def _reason(error: BaseException) -> str:
    """What is at the bottom of it."""
    while error.__cause__ is not None:
        error = single(error.__cause__)
    return str(error) or type(error).__name__


class _CircuitAddress(Multiaddr):  # type: ignore[misc]
    """A circuit address whose peer id is its target's, and never the relay's: py-libp2p cuts off
    what looks like an id of this host before it puts its own there."""

    def value_for_protocol(self, proto: Any) -> Any:
        if proto != "p2p":
            return super().value_for_protocol(proto)
        target = self.get_peer_id()
        if target is None:
            raise ProtocolLookupError(proto, str(self))
        return target
