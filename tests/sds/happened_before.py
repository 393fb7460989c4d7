"""What happened before what, from outside the protocol: by what each member really had seen.

When a member sends, its message comes after everything that was delivered to it and everything
that it sent. When a message is delivered, all of that must have been delivered there before.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Seen:
    """What one member has sent and got: by author, up to which of the author's messages."""

    upto: dict[str, int] = field(default_factory=dict)
    beyond: dict[str, set[int]] = field(default_factory=dict)

    def add(self, author: str, number: int) -> None:
        done, beyond = self.upto.get(author, 0), self.beyond.setdefault(author, set())
        beyond.add(number)
        while done + 1 in beyond:
            done += 1
            beyond.discard(done)
        self.upto[author] = done

    def has(self, author: str, number: int) -> bool:
        return number <= self.upto.get(author, 0) or number in self.beyond.get(author, ())


class HappenedBefore:
    """Told of every message sent and delivered; `violations` says what came too early."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.duplicates: list[str] = []
        self._seen: dict[str, Seen] = {}
        self._numbers: dict[str, int] = {}
        self._of: dict[str, tuple[str, int]] = {}
        self._past: dict[str, tuple[dict[str, int], dict[str, frozenset[int]]]] = {}
        self._clocks: dict[str, int] = {}

    def sent(self, member: str, message_id: str, clock: int = 0) -> None:
        """`member` sends, with this clock in the total order."""
        seen = self._seen.setdefault(member, Seen())
        number = self._numbers[member] = self._numbers.get(member, 0) + 1
        beyond = {a: frozenset(ns) for a, ns in seen.beyond.items() if ns}
        self._past[message_id] = dict(seen.upto), beyond
        self._of[message_id] = member, number
        self._clocks[message_id] = clock
        seen.add(member, number)

    def author(self, message_id: str) -> str | None:
        return self._of[message_id][0] if message_id in self._of else None

    def delivered(self, member: str, message_id: str) -> None:
        """`member`'s application gets a message of another."""
        seen = self._seen.setdefault(member, Seen())
        if message_id not in self._of:
            return  # a liar's, of which nothing is known
        author, number = self._of[message_id]
        if seen.has(author, number):
            self.duplicates.append(f"{member} got {message_id} of {author} again")
        upto, beyond = self._past[message_id]
        for other, done in upto.items():
            if seen.upto.get(other, 0) < done:
                self.violations.append(
                    f"{member} got {message_id} of {author} before all that {author} had of {other}"
                )
        for other, numbers in beyond.items():
            if not all(seen.has(other, n) for n in numbers):
                self.violations.append(f"{member} got {message_id} before its past by {other}")
        seen.add(author, number)

    def order(self, log: list[tuple[int, str]]) -> list[str]:
        """Pairs of a total order that contradict causality: a message before one of its past."""
        wrong: list[str] = []
        before = Seen()
        for _, message_id in log:
            if message_id not in self._of:
                continue
            author, number = self._of[message_id]
            upto, _ = self._past[message_id]
            wrong += [
                f"{message_id} is ordered before its past by {other}"
                for other, done in upto.items()
                if before.upto.get(other, 0) < done
            ]
            before.add(author, number)
        return wrong
