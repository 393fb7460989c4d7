"""Sequence ids of frames: given out for what we send, checked on what we receive (E42)."""

from __future__ import annotations

from collections import OrderedDict

from episub_router.net.limits import DEFAULT_LIMITS, NetLimits


class SequenceIds:
    """Sequence ids for the frames that we send, counted for each receiver.

    One count for all receivers would leave gaps, and a frame that a priority frame overtakes
    in a send queue could then fall out of its receiver's window. Ids are in [1, 2^64) as long
    as `start` is the time in nanoseconds, which makes a restarted node go on above its past.
    """

    def __init__(self, start: int, limits: NetLimits = DEFAULT_LIMITS) -> None:
        self._floor = start
        self._limits = limits
        self._last: OrderedDict[bytes, int] = OrderedDict()

    def next(self, peer: bytes) -> int:
        """The id for the next frame to `peer`; take it when the frame enters its queue."""
        seq = self._last.get(peer, self._floor) + 1
        self._last[peer] = seq
        self._last.move_to_end(peer)
        if len(self._last) > self._limits.sequence_peers:
            # Whoever comes back starts above everything that any forgotten peer was sent.
            self._floor = max(self._floor, self._last.popitem(last=False)[1])
        return seq


class ReplayGuard:
    """Tells new frames from repeated ones with one sliding window per peer.

    Frames may arrive in any order inside the window, and a jump forward is legal. Peers are
    bounded; the least recently heard is forgotten first.
    """

    def __init__(self, limits: NetLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._full = (1 << limits.sequence_window) - 1
        self._windows: OrderedDict[bytes, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._windows)

    def fresh(self, peer: bytes, seq: int) -> bool:
        """Note `seq` from `peer`; False if it came before or is too old to tell."""
        # Bit i of `seen` stands for the sequence id highest - i.
        highest, seen = self._windows.get(peer, (seq, 0))
        if seq > highest:
            ahead = seq - highest
            seen = seen << ahead & self._full if ahead < self._limits.sequence_window else 0
            highest = seq
        age = highest - seq
        if age >= self._limits.sequence_window or seen >> age & 1:
            return False
        self._windows[peer] = (highest, seen | 1 << age)
        self._windows.move_to_end(peer)
        if len(self._windows) > self._limits.sequence_peers:
            self._windows.popitem(last=False)
        return True

    def forget(self, peer: bytes) -> None:
        """The connection to `peer` closed. The next one is authenticated anew, and a peer that
        restarted with its clock set back must not be locked out."""
        self._windows.pop(peer, None)
