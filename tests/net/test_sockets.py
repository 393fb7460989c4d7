"""What the kernel is asked to notice of a connection."""

from __future__ import annotations

import socket
import sys
from types import SimpleNamespace

import pytest
import trio

from episub_router import RouterParams
from episub_router.net.connections.silence import bytes_received, notice_silence, socket_below
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
    assert not notice_silence(SimpleNamespace(secured_conn=trio.SocketStream(one)), 7.0)


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


@LINUX
async def test_only_what_the_other_process_writes_counts_as_received() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, socket.create_connection(listener.getsockname()) as one:
        other, _ = listener.accept()
        layer = SimpleNamespace(conn=trio.SocketStream(trio.socket.from_stdlib_socket(one)))
        with other:
            assert bytes_received(layer) == 0
            one.send(b"acknowledged by the other kernel")
            assert bytes_received(layer) == 0
            other.send(b"five!")
            assert one.recv(5, socket.MSG_PEEK | socket.MSG_WAITALL) == b"five!"
            assert bytes_received(layer) == 5
    assert bytes_received(layer) is None
