"""Connections: how the router makes them, and which it closes again."""

from episub_router.net.connections.arrivals import ConnectionNotifee
from episub_router.net.connections.dial_budget import DialBudget
from episub_router.net.connections.dialer import DIALS_AT_ONCE, Dialer
from episub_router.net.connections.direct import DirectPeers
from episub_router.net.connections.idle import IdleConnections
from episub_router.net.connections.silence import SilenceWatch
from episub_router.net.connections.sockets import bytes_received, notice_silence, socket_below

__all__ = [
    "DIALS_AT_ONCE",
    "ConnectionNotifee",
    "DialBudget",
    "Dialer",
    "DirectPeers",
    "IdleConnections",
    "SilenceWatch",
    "bytes_received",
    "notice_silence",
    "socket_below",
]
