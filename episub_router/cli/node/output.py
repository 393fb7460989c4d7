"""What `episub node` prints: for people, or one JSON object per line."""

from __future__ import annotations

import base64
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from episub_router.net.events import WHY
from episub_router.protocol.effects import DownReason


class PlainOutput:
    """Where a node reports what happens: messages go to standard output, everything else to
    standard error. Peers are peer ids in their usual text form."""

    def listening(self, peer: str, addresses: Sequence[str], topic: str) -> None:
        self.note(f"listening as {peer} on")
        for address in addresses:
            self.note(f"  {address}")
        join = shlex.join(["episub", "node", f"--topic={topic}", "--bootstrap", addresses[0]])
        self.note(f"others join with: {join}")

    def joined(self, peer: str, count: int) -> None:
        """`peer` became a neighbour, of which there are `count` now."""
        self.note(f"neighbour {_short(peer)} came; there are {count}")

    def parted(self, peer: str, count: int, reason: DownReason | None) -> None:
        """`peer` ceased to be one; of a gossipsub neighbour no reason is known."""
        why = "" if reason is None else f": {WHY[reason]}"
        self.note(f"neighbour {_short(peer)} went{why}; there are {count}")

    def delivered(self, source: str, data: bytes | Path) -> None:
        """A message came: what it says, or the file that it was written to."""
        said = str(data) if isinstance(data, Path) else printable(data)
        print(f"{_short(source)}  {said}", flush=True)

    def published(self, data: bytes | Path) -> None:
        """Likewise of what this node publishes, which stands on the terminal already."""

    def failed(self, data: bytes, error: str) -> None:
        """`data`, or what begins so, was not published."""
        self.note(f"not published: {error}")

    def receiving(self, source: str, received: int, size: int) -> None:
        """Of a large message of `source`, `received` of `size` bytes are here."""
        if sys.stderr.isatty() or received == size:
            end = "\n" if received == size else "\r"
            print(f"# {bar(received, size)} {_short(source)}", end=end, file=sys.stderr, flush=True)

    def sent(self, neighbors: int, size: int) -> None:
        """A large message of this node was sent whole to `neighbors`."""
        self.note(f"{size:,} bytes were sent to {neighbors} neighbours")

    def note(self, text: str) -> None:
        """Something that the user should know."""
        print(f"# {text}", file=sys.stderr, flush=True)


class JsonOutput(PlainOutput):
    """Every event is a line on standard output; notes go to standard error."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def listening(self, peer: str, addresses: Sequence[str], topic: str) -> None:
        self._event("listening", peer=peer, addresses=list(addresses))

    def joined(self, peer: str, count: int) -> None:
        self._event("peer-up", peer=peer, neighbors=count)

    def parted(self, peer: str, count: int, reason: DownReason | None) -> None:
        why = {} if reason is None else {"reason": reason.value}
        self._event("peer-down", peer=peer, neighbors=count, **why)

    def delivered(self, source: str, data: bytes | Path) -> None:
        self._event("delivered", source=source, **_payload(data))

    def published(self, data: bytes | Path) -> None:
        self._event("published", **_payload(data))

    def failed(self, data: bytes, error: str) -> None:
        self._event("failed", **_payload(data), error=error)

    def receiving(self, source: str, received: int, size: int) -> None:
        self._event("receiving", source=source, received=received, size=size)

    def sent(self, neighbors: int, size: int) -> None:
        self._event("sent", neighbors=neighbors, size=size)

    def note(self, text: str) -> None:
        print(f"episub: {text}", file=sys.stderr, flush=True)

    def _event(self, event: str, **fields: Any) -> None:
        print(json.dumps({"event": event, "topic": self._topic, **fields}), flush=True)


def printable(data: bytes) -> str:
    """`data` as text that a terminal can't take for commands."""
    text = data.decode(errors="backslashreplace")
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def bar(done: int, total: int) -> str:
    """How much of `total` bytes is done."""
    filled = 20 * done // total
    return f"[{'#' * filled}{'-' * (20 - filled)}] {done:,} of {total:,} bytes"


def _payload(data: bytes | Path) -> dict[str, str]:
    """As "text" if it is UTF-8, else as "base64"; or as "file"."""
    if isinstance(data, Path):
        return {"file": str(data)}
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _short(peer: str) -> str:
    """The end of a peer id: the beginning is the same for all keys of a kind."""
    return peer[-8:]
