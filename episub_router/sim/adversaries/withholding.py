"""Members that take payloads and don't pass them on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from episub_router.protocol.messages import Gossip, IHave, Message
from episub_router.protocol.piece_messages import Piece, PieceAnnounce
from episub_router.sim.adversaries.member import Member
from episub_router.sim.adversaries.settings import CovertCensorAttack

_PASSED_ON = (Gossip, IHave, Piece, PieceAnnounce)


class Censor(Member):
    """`CensorAttack`."""

    __slots__ = ()

    def disguised(self, message: Message) -> Message | None:
        return None if isinstance(message, _PASSED_ON) else message


class CovertCensor(Member):
    """`CovertCensorAttack`."""

    __slots__ = ("_silenced",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        settings = self.ring.settings
        assert isinstance(settings, CovertCensorAttack)
        self._silenced = frozenset(self.ring.sources[: settings.sources])

    def disguised(self, message: Message) -> Message | None:
        if isinstance(message, Gossip):
            return None if self._is_silenced(message.id) else message
        if isinstance(message, IHave):
            shown = tuple(entry for entry in message.summary if not self._is_silenced(entry.id))
            return replace(message, summary=shown) if shown else None
        return message

    def _is_silenced(self, message: Any) -> bool:
        return self.records.messages[message].source in self._silenced
