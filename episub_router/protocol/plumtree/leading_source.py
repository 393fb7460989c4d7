"""Which source's duplicates may prune links (E31), where several sources publish.

A message that enters the overlay at one node cuts every cycle once, where its copies meet.
Messages of two sources that are in flight together cut the same cycle at two places, and part
of the tree is disconnected until announcements repair it. So one of the recent sources leads,
the same at all nodes that received the same messages, and only its duplicates prune.
"""

from __future__ import annotations

from episub_router.protocol.types import SourceId


class LeadingSource:
    """The smallest source id among the last `window` messages.

    The first source after a whole window without a leader's message becomes the leader: with
    ids that arrive in ascending order, by chance or on purpose, no source would lead otherwise.
    Where more messages than the window holds are in flight, nodes may disagree.
    """

    __slots__ = ("_recent", "_window", "_without_leader")

    def __init__(self, window: int) -> None:
        self._window = window
        self._recent: list[SourceId] = []
        self._without_leader = 0
        """Messages since the last one of the leader."""

    def note_message(self, source: SourceId | None) -> None:
        """A new message of `source` was accepted; None if messages don't name their source."""
        if source is None:
            return
        if self._without_leader >= self._window:
            self._recent.clear()
        self._without_leader = 0 if self.may_prune(source) else self._without_leader + 1
        self._recent.append(source)
        if len(self._recent) > self._window:
            del self._recent[0]

    def may_prune(self, source: SourceId | None) -> bool:
        """Whether a duplicate of a message of `source` may prune the link that it came over."""
        return source is None or all(source <= other for other in self._recent)
