"""Contents larger than one message: cut into pieces, the last of which names the others."""

from __future__ import annotations

from collections.abc import Sequence

from episub_router.sds.protocol.message import Message, MessageId, SenderId


class UnreadableError(Exception):
    """A content can't be read; the message says why."""


def cut(content: bytes, size: int) -> list[bytes]:
    """`content` in pieces of at most `size` bytes, at least one."""
    return [content[i : i + size] for i in range(0, len(content), size)] or [b""]


def joined(last: Message, sender: SenderId, pieces: Sequence[Message], limit: int) -> bytes:
    """The content that `last` completes, of at most `limit` bytes.

    Raises UnreadableError where a piece is missing, or is none of the same sender.
    """
    if not last.parts:
        return last.content or b""
    found: dict[MessageId, Message] = {p.message_id: p for p in pieces}
    missing = [i for i in last.parts if i not in found]
    if missing:
        raise UnreadableError(f"{len(missing)} of {len(last.parts) + 1} pieces are missing")
    ordered = [found[i] for i in last.parts]
    if not all(p.part and p.sender_id in ("", sender) for p in ordered):
        raise UnreadableError("it names messages as its pieces that are none")
    size = sum(len(p.content or b"") for p in [*ordered, last])
    if size > limit:
        raise UnreadableError(f"{size} bytes, at most {limit} are taken")
    return b"".join(p.content or b"" for p in [*ordered, last])
