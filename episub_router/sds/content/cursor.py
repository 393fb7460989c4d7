"""Where a reader of the total order is: kept with what it made of the messages, exactly once."""

from __future__ import annotations

import json
from dataclasses import dataclass

from episub_router.sds.protocol.entry import Key


@dataclass(frozen=True, slots=True)
class Cursor:
    """Everything up to `place` was read, as far as it had come with the number `arrival`."""

    place: Key | None = None
    arrival: int = 0

    def __str__(self) -> str:
        return json.dumps([*(self.place or (-1, "")), self.arrival])

    @classmethod
    def read(cls, text: str | None) -> Cursor:
        """The cursor that was written so; None is the beginning. Raises ValueError."""
        if text is None:
            return cls()
        match json.loads(text):
            case [int(clock), str(message_id), int(arrival)]:
                return cls(None if clock < 0 else (clock, message_id), arrival)
        raise ValueError(f"no cursor: {text!r}")
