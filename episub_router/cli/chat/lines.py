"""What members say in a chat room: its form on the wire, and as a line of the terminal."""

from __future__ import annotations

import json
from dataclasses import dataclass

from episub_router.sds import ChannelMessage
from episub_router.util.bounded import put_last

MAX_MEMBERS = 1024
"""Names that are remembered; of more members, those seen first are shown by their ids."""

JOINED, LEFT = "joined", "left"


@dataclass(frozen=True, slots=True)
class Line:
    """A message of a room: `text` that a member said or, where `notice` is set, that it came or
    went."""

    name: str
    text: str = ""
    notice: str = ""

    def encoded(self) -> bytes:
        said = {"notice": self.notice} if self.notice else {"text": self.text}
        return json.dumps({"name": self.name, **said}).encode()


def line_in(content: bytes) -> Line:
    """The line in a message's content, whatever that holds."""
    try:
        said = json.loads(content)
        name = str(said["name"])
        if said.get("notice") in (JOINED, LEFT):
            return Line(name, notice=said["notice"])
        return Line(name, str(said["text"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Line("?", repr(content))


class MemberNames:
    """The names that members gave themselves, by their ids."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def shown(self, message: ChannelMessage) -> str:
        """`message` as a line for the terminal. Remembers its sender's name."""
        line = line_in(message.content)
        if line.name != "?":
            put_last(self._names, message.sender, line.name, MAX_MEMBERS)
        name = self.name(message.sender) if message.sender in self._names else line.name
        text = f"* {name} {line.notice}" if line.notice else f"{name}: {line.text}"
        # What others send must not drive this terminal.
        text = "".join(c if c.isprintable() else "�" for c in text)
        return f"{text}  [{len(message.missing)} lost before this]" if message.missing else text

    def name(self, member: str) -> str:
        """What `member` is called: its name, with the end of its id where another has the same."""
        name = self._names.get(member)
        if name is None:
            return f"...{member[-6:]}"
        several = sum(other == name for other in self._names.values()) > 1
        return f"{name} (...{member[-6:]})" if several else name

    def all(self) -> tuple[str, ...]:
        """The ids of the members whose names are known."""
        return tuple(self._names)
