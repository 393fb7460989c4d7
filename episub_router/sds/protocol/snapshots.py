"""Snapshots: what members say that an application's state was, up to a place in the order."""

from __future__ import annotations

from dataclasses import dataclass

from episub_router.sds.protocol.group import MEMBERS
from episub_router.sds.protocol.message import Message, MessageId, SenderId
from episub_router.util.bounded import put_last

_KEPT = 2
"""Statements of a sender: one that others share, and one that they may not share yet."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """Members have signed that the state of all messages with clocks up to `until` has `digest`."""

    until: int
    digest: bytes
    statements: tuple[MessageId, ...]


class Snapshots:
    """What each of at most `MEMBERS` senders said."""

    def __init__(self) -> None:
        self._said: dict[SenderId, dict[tuple[int, bytes], MessageId]] = {}
        self._alike: list[Agreed] | None = None
        """What they say, newest first; None where it is to be made again."""

    def note(self, message: Message) -> None:
        """A message of the log, which may be a statement."""
        if 0 < message.snapshot < (message.lamport or 0):
            said = self._said.get(message.sender_id, {})
            said[message.snapshot, message.content or b""] = message.message_id
            newest = dict(sorted(said.items())[-_KEPT:])
            put_last(self._said, message.sender_id, newest, MEMBERS)
            self._alike = None

    def agreed(self, signers: int) -> list[Agreed]:
        """What so many members say alike, newest first."""
        if self._alike is None:
            ids: dict[tuple[int, bytes], list[MessageId]] = {}
            for said in self._said.values():
                for what, message_id in said.items():
                    ids.setdefault(what, []).append(message_id)
            self._alike = [Agreed(*what, tuple(ids[what])) for what in sorted(ids, reverse=True)]
        return [each for each in self._alike if len(each.statements) >= signers]


def signed_by(messages: list[Message], digest: bytes) -> tuple[int, int]:
    """The clock up to which a state with this digest is one that messages state, and how many
    members do."""
    stating = [m for m in messages if m.snapshot and m.content == digest]
    until = stating[0].snapshot if stating else 0
    return until, len({m.sender_id for m in stating if m.snapshot == until})
