"""Why the nodes of the bootstrap list could not be reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from multiaddr import Multiaddr

from episub_router.net.peer import RemotePeer
from episub_router.net.peer_table import PeerListener
from episub_router.net.sight.events import BootstrapFailed, TopicEvents

_SAME_KEY = "it has this node's own peer id: two nodes can't share a key"


class BootstrapWatch(PeerListener):
    """Reports failed dials to the bootstrap list in each joined topic.

    `failures` has the last reason for each address; bounded by the list.
    """

    def __init__(
        self,
        me: bytes,
        bootstrap: Mapping[bytes, tuple[Multiaddr, ...]],
        topics: Callable[[], Iterable[str]],
        events: TopicEvents,
    ) -> None:
        self._me = me
        self._bootstrap = bootstrap
        self._topics = topics
        self._events = events
        self.failures: dict[Multiaddr, str] = {}

    def joined(self, topic: str) -> None:
        """Report what can't work in `topic`."""
        if self._me in self._bootstrap:
            self._report((topic,), self._me, _SAME_KEY)

    def dial_failed(self, peer: RemotePeer) -> None:
        if peer.key in self._bootstrap:
            self._report(self._topics(), peer.key, peer.dial_error or "the dial failed")

    def peer_writable(self, peer: RemotePeer) -> None:
        for address in self._bootstrap.get(peer.key, ()):
            self.failures.pop(address, None)

    def _report(self, topics: Iterable[str], key: bytes, reason: str) -> None:
        for address in self._bootstrap[key][:1]:
            self.failures[address] = reason
            for topic in topics:
                self._events.emit(BootstrapFailed(topic, address, reason))


def root_cause(error: BaseException) -> str:
    """The error at the bottom of a chain or a group, in one line."""
    while True:
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        elif error.__cause__ is not None:
            error = error.__cause__
        else:
            break
    text = " ".join(str(error).split())
    if "handshake failed" in text:
        return f"does the peer there have another id? {text}"
    if "fail to open connection" in text or "all attempts to connect" in text:
        return f"nothing listens there, or a firewall is in between: {text}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
