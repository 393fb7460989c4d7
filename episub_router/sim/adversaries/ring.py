"""What the hostile nodes of one table have in common."""

from __future__ import annotations

from typing import Protocol

from episub_router.protocol.messages import TreeRoot
from episub_router.protocol.types import SourceId
from episub_router.sim.adversaries.settings import Attack

_ALL = -1


class Conspirator(Protocol):
    """A hostile node, as its ring sees it."""

    id: int

    def on_learned(self, message: int) -> None:
        """The ring knows of `message` now."""

    def on_root_learned(self, root: TreeRoot) -> None:
        """The ring knows a new round of a source now."""


class Ring:
    """The members of one table, and what they know together.

    What one member learns all know at once: worse than any network between them.
    """

    def __init__(
        self,
        settings: Attack,
        members: tuple[int, ...],
        honest: tuple[int, ...],
        sources: tuple[int, ...],
        victims: tuple[int, ...],
    ) -> None:
        self.settings = settings
        self.members = members
        self.honest = honest
        self.sources = sources
        self.victims = victims
        self.up: dict[int, Conspirator] = {}
        """The members that are up, by id."""
        self._messages: dict[tuple[int, int], None] = {}
        """(message, knower), as below. Bound: the run's messages, times the members."""
        self._rounds: dict[tuple[SourceId, int], int] = {}
        """The newest known round of each (source, knower). Bound: sources, times the members."""

    @property
    def conspires(self) -> bool:
        """Whether the members know each other."""
        return self.settings.knows != "nobody"

    def friends(self, of: int) -> list[int]:
        """The members that `of` can name, itself first."""
        return [of, *(member for member in self.up if member != of)] if self.conspires else [of]

    def _sharing(self, by: Conspirator) -> tuple[int, list[Conspirator]]:
        """The name of what `by` shares its knowledge with, and the members of that."""
        return (_ALL, list(self.up.values())) if self.conspires else (by.id, [by])

    def learn(self, message: int, by: Conspirator) -> None:
        """`by` has seen the id of `message`."""
        knower, members = self._sharing(by)
        if (message, knower) not in self._messages:
            self._messages[message, knower] = None
            for member in members:
                member.on_learned(message)

    def learn_root(self, root: TreeRoot, ahead: int, by: Conspirator) -> None:
        """`by` has received a ROOT, and forges one whose round is `ahead` of it."""
        knower, members = self._sharing(by)
        if root.round > self._rounds.get((root.source, knower), -1):
            # What comes back of the forged one isn't news.
            self._rounds[root.source, knower] = root.round + ahead
            for member in members:
                member.on_root_learned(root)
