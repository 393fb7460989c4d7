"""Whose messages may cut links out of the tree (E31).

A message that enters the overlay at one node cuts every cycle once, where its copies meet.
Messages of two sources that are under way together cut the same cycle at two places, and part of
the tree is cut off until announcements repair it. So among the sources of the last messages one
leads, the same for nodes that saw the same messages, and duplicates of the others' messages cut
nothing. Where more messages than the window holds are under way, nodes may disagree.
"""

from __future__ import annotations

from collections import deque

from episub_router.protocol.types import SourceId


class LeadingSource:
    """The first, in their natural order, of the sources of the last messages.

    Whoever comes after a whole window without a leader's message leads: sources that come in
    ascending order, by chance or on purpose, would else leave nobody leading.
    """

    __slots__ = ("_recent", "_window", "_without_leader")

    def __init__(self, window: int) -> None:
        self._window = window
        self._recent: deque[SourceId] = deque(maxlen=window)
        self._without_leader = 0
        """Messages since the last one that might cut."""

    def note(self, source: SourceId | None) -> None:
        """A new message of `source` came; None if messages don't name theirs."""
        if source is None:
            return
        if self._without_leader >= self._window:
            self._recent.clear()
        self._without_leader = 0 if self.may_cut(source) else self._without_leader + 1
        self._recent.append(source)

    def may_cut(self, source: SourceId | None) -> bool:
        """Whether a duplicate of a message of `source` may cut the link that it came over."""
        return source is None or all(source <= other for other in self._recent)
