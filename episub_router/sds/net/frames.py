"""Length-prefixed frames, read many bytes at a time."""

from __future__ import annotations

from libp2p.abc import INetStream
from libp2p.io.exceptions import IncompleteReadError
from libp2p.utils.varint import decode_uvarint

_READ = 65_536
_LENGTH = 5
"""Bytes of a frame's length, at most."""


class IncomingFrames:
    """The frames of a stream, each after its length.

    py-libp2p reads a length byte by byte, and grants the other side room again, in a message of its
    own, after each read: that would cost more than request and answer.
    """

    def __init__(self, stream: INetStream) -> None:
        self._stream = stream
        self._data = bytearray()

    def has_next(self) -> bool:
        """Whether one is there already, or what is there is none."""
        try:
            start = _length_size(self._data)
        except ValueError:
            return True
        if start is None:
            return False
        return len(self._data) >= start + decode_uvarint(bytes(self._data[:start]))

    async def next(self, limit: int) -> bytes:
        """The next one. Raises IncompleteReadError at the end, and ValueError for what is no
        length, or one above `limit`."""
        data = self._data
        while (start := _length_size(data)) is None:
            await self._read()
        size = decode_uvarint(bytes(data[:start]))
        if size > limit:
            raise ValueError(f"a frame of {size} bytes, at most {limit} are read")
        while len(data) < start + size:
            await self._read()
        frame = bytes(data[start : start + size])
        del data[: start + size]
        return frame

    async def _read(self) -> None:
        data = await self._stream.read(_READ)
        if not data:
            raise IncompleteReadError("the stream ended")
        self._data += data


def _length_size(data: bytearray) -> int | None:
    """Bytes of the length at the beginning, None where it isn't all there."""
    for index, byte in enumerate(data[:_LENGTH]):
        if byte < 0x80:
            return index + 1
    if len(data) >= _LENGTH:
        raise ValueError("a length of a frame that never ends")
    return None
