"""Whose messages may cut links out of the tree (E31).

One message cuts every cycle once, where its copies meet. Messages of two sources that are under
way together cut the same cycle at two places, and part of the tree is cut off until announcements
repair it. So among the sources of the last messages one leads, the same for all nodes that saw
the same messages, and duplicates of the others' messages cut nothing.
"""

from __future__ import annotations

from collections import deque

from episub_router.protocol.types import SourceId


class LeadingSource:
    """The first, in their natural order, of the sources of the last messages."""

    __slots__ = ("_recent",)

    def __init__(self, window: int) -> None:
        self._recent: deque[SourceId] = deque(maxlen=window)

    def note(self, source: SourceId | None) -> None:
        """A new message of `source` came; None if messages don't name theirs."""
        if source is not None:
            self._recent.append(source)

    def may_cut(self, source: SourceId | None) -> bool:
        """Whether a duplicate of a message of `source` may cut the link that it came over."""
        return source is None or all(source <= other for other in self._recent)
