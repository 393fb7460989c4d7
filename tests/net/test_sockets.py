"""What the kernel is asked to notice of a connection."""

from __future__ import annotations

import socket
import struct
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from libp2p.io.exceptions import ConnectionClosedError
from libp2p.io.trio import TrioTCPStream
from libp2p.peer.id import ID

from episub_router import RouterParams
from episub_router.net.connections import kernel
from episub_router.net.connections.kernel import (
    bytes_received,
    notice_silence,
    pass_at_once,
    shortest_rtt,
    socket_below,
)
from tests.hosts import connect_all
from tests.router.overlays import overlay_of, record

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="TCP_USER_TIMEOUT is Linux's")


async def test_what_stands_on_no_socket_is_left_alone() -> None:
    for layer in (None, object(), SimpleNamespace(conn=SimpleNamespace(stream=None))):
        assert socket_below(layer) is None
        assert not notice_silence(layer, 7.0)


async def test_a_socket_that_has_closed_is_left_alone() -> None:
    one, other = trio.socket.socketpair()
    one.close()
    other.close()
    layer = TrioTCPStream(trio.SocketStream(one))
    assert not notice_silence(SimpleNamespace(secured_conn=layer), 7.0)


@LINUX
@pytest.mark.hosts
async def test_each_connection_of_a_router_is_watched() -> None:
    async with overlay_of(2) as (nodes, _):
        await connect_all([(nodes[0], nodes[1])])
        for node, other in (nodes, nodes[::-1]):
            assert record(node, other).probed
            [connection] = node.host.get_network().get_connections()
            found = socket_below(connection.muxed_conn)
            assert found is not None
            timeout = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
            assert timeout == RouterParams().silence_timeout * 1000
            # A link that is quiet is noticed within 10 s as well.
            assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            quiet = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
            assert quiet + RouterParams().silence_timeout < 10


PEER = ID(b"peer")


def host_over(*streams: trio.SocketStream | None) -> Any:
    """A host with these connections to each peer."""
    layers = [stream and TrioTCPStream(stream) for stream in streams]
    connections = [SimpleNamespace(muxed_conn=SimpleNamespace(conn=each)) for each in layers]
    network = SimpleNamespace(get_connections=lambda _: connections)
    return SimpleNamespace(get_network=lambda: network)


@LINUX
async def test_only_what_the_other_process_writes_counts_as_received() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, socket.create_connection(listener.getsockname()) as one:
        other, _ = listener.accept()
        host = host_over(None, trio.SocketStream(trio.socket.from_stdlib_socket(one)))
        with other:
            assert bytes_received(host, PEER) == 0
            one.send(b"acknowledged by the other kernel")
            assert bytes_received(host, PEER) == 0
            other.send(b"five!")
            assert one.recv(5, socket.MSG_PEEK | socket.MSG_WAITALL) == b"five!"
            assert bytes_received(host, PEER) == 5
    assert bytes_received(host, PEER) is None


@LINUX
async def test_a_process_that_answers_late_is_no_farther() -> None:
    """Both ends know it from the handshake on."""
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, socket.create_connection(listener.getsockname()) as one:
        other, _ = listener.accept()
        ends = [
            host_over(trio.SocketStream(trio.socket.from_stdlib_socket(end)))
            for end in (one, other)
        ]
        for _ in range(3):
            assert [shortest_rtt(host, PEER) for host in ends] == [0.001, 0.001]
            one.send(b"x")
            other.recv(1)
            await trio.sleep(0.1)
            other.send(b"x")
            one.recv(1)
    assert shortest_rtt(ends[0], PEER) is None
    assert shortest_rtt(host_over(), PEER) is None


def tcp_info(rtt: int) -> bytes:
    """What the kernel says of a connection with this tcpi_min_rtt (linux/tcp.h)."""
    return struct.pack("=148xI", rtt)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ([80_000, 40_300], 0.0403),  # of two connections the shorter way
        ([20], 0.001),
        ([2**32 - 1], None),  # nothing was acknowledged yet
        ([2**32 - 1, 5_000], 0.005),
        ([None], None),  # a kernel that knows less
    ],
)
def test_the_kernels_microseconds_are_seconds(
    said: list[int | None], seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    infos = iter([bytes(104) if rtt is None else tcp_info(rtt) for rtt in said])
    asked = SimpleNamespace(getsockopt=lambda *_: next(infos))
    monkeypatch.setattr(kernel, "socket_below", lambda _: asked)
    monkeypatch.setattr(socket, "TCP_INFO", 11, raising=False)
    assert shortest_rtt(host_over(*[None] * len(said)), PEER) == seconds


async def test_what_is_there_is_received_at_once() -> None:
    one, other = trio.socket.socketpair()
    tcp = TrioTCPStream(trio.SocketStream(one))
    pass_at_once(SimpleNamespace(conn=tcp))
    await other.send(b"2:message, and more")
    parts = [await tcp.read(2)]
    pass_at_once(SimpleNamespace(conn=tcp))  # by a second router of the host
    assert await tcp.read(0) == b""
    await other.send(b".")
    assert await one.recv(2) == b"."  # Nothing else is left in the socket.
    parts += [await tcp.read(most) for most in (7, None)]
    assert parts == [b"2:", b"message", b", and more"]
    other.close()
    assert await tcp.read(2) == b""
    one.close()
    assert await tcp.read(2) == b""
    pass_at_once(SimpleNamespace(conn=None))  # what stands on no socket


async def test_what_a_socket_has_no_room_for_follows_in_order_though_the_writer_is_cancelled() -> (
    None
):
    one, other = trio.socket.socketpair()
    tcp = TrioTCPStream(trio.SocketStream(one))
    pass_at_once(SimpleNamespace(conn=tcp))
    sent, received = {bytes([number]) * 500_000 for number in range(3)}, b""
    async with trio.open_nursery() as nursery:
        for data in sent:
            nursery.start_soon(tcp.write, data)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            while len(received) < 1_500_000:
                received += await other.recv(65_536)
    assert {received[at : at + 500_000] for at in (0, 500_000, 1_000_000)} == sent
    other.close()
    with pytest.raises(ConnectionClosedError):
        await tcp.write(b"more")
