"""The interface that all timed procedures of the overlay share."""

from __future__ import annotations

from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.types import NEVER, Time


class Procedure:
    """One procedure of the overlay: start it, fire it when its deadline has come, stop it."""

    __slots__ = ("_state", "deadline")

    def __init__(self, state: OverlayState) -> None:
        self._state = state
        self.deadline: Time = NEVER
        """When `fire` is next due; infinity while nothing is waited for."""

    def start(self, now: Time) -> None:
        """This node has joined the overlay."""

    def fire(self, now: Time) -> None:
        """The deadline has come: do what is due, and set the next deadline."""

    def stop(self) -> None:
        """This node has left the overlay: forget everything."""
        self.deadline = NEVER
