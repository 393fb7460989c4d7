"""Asking peers over direct streams, and turning their answers into the participant's events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeAlias

from libp2p.abc import IHost
from libp2p.peer.id import ID

from episub_router.sds.net import exchange
from episub_router.sds.net.exchange import ExchangeError, Served
from episub_router.sds.net.intake import Intake, Rejected
from episub_router.sds.net.limiter import HostPace
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.effects import Effect, Response
from episub_router.sds.protocol.entry import Key, StoredMessage
from episub_router.sds.protocol.message import ReceivedMessage
from episub_router.sds.protocol.participant import Participant
from episub_router.sds.store.values import StoreFullError
from episub_router.sds.wire.exchange import Request
from episub_router.util.kept import one_for_each

Step: TypeAlias = Callable[[Participant, float], list[Effect]]
"""Something that happens to a participant at a time."""

_AT_ONCE = 200
"""Messages of a page that are taken in in one step: a twentieth of a second (chosen)."""
_pace: Callable[[IHost], HostPace] = one_for_each(lambda host: HostPace())


class AskingChannel(Served, Protocol):
    """A channel that asks. `act` takes a step to its participant."""

    intake: Intake
    counts: Counter[str]

    async def act(self, step: Step) -> None: ...
    async def check_room(self) -> None: ...
    def accepted(self, received: ReceivedMessage | Rejected) -> ReceivedMessage | None: ...


class Asker:
    """The requests of one channel of one topic."""

    def __init__(self, host: IHost, channel: AskingChannel) -> None:
        self._host = host
        self._channel = channel
        self._pace = _pace(host)

    async def ask(self, effect: fx.Ask) -> None:
        """One request, if it is still of use when its turn has come, and what follows from its
        answer."""
        try:
            async with self._pace.turn(effect.peer):
                if not self._channel.participant.awaits(effect):
                    return
                response = await self._once(effect)
        except ExchangeError:
            self._channel.counts["ask-failed"] += 1
            await self._channel.act(lambda participant, now: participant.failed(effect, now))
            return
        try:
            await self._channel.check_room()
            if isinstance(effect, fx.AskRange) and not effect.ids_only:
                while len(response.items) > _AT_ONCE:
                    part = replace(response, items=response.items[:_AT_ONCE])
                    response = replace(response, items=response.items[_AT_ONCE:])
                    await self._take_in(effect, part, more=True)
            await self._take_in(effect, response)
        except StoreFullError:
            self._channel.counts["store-full"] += 1  # it is asked for again

    async def older(
        self, peers: list[str], before: Key | None, limit: int
    ) -> tuple[list[StoredMessage], bool]:
        """A page of the last messages before a place, ascending, from the first of `peers` that has
        some, and whether it has more. Those that don't answer leave `peers`.

        Raises ExchangeError where none is left.
        """
        problem = ExchangeError("there is no peer to ask")
        for peer in [*peers]:
            try:
                async with self._pace.turn(peer):
                    until = before and _next_below(before)
                    page = fx.AskRange(peer, limit, None, until, newest_first=True)
                    response = await self._once(page)
            except ExchangeError as error:
                peers.remove(peer)
                problem = error
                continue
            rows: list[StoredMessage] = []
            last = before
            for item in response.items:
                received = self._served(item, peer)
                if received is None or (last is not None and item.key >= last):
                    continue
                if self._channel.intake.proves_id(received, self._channel.channel_id, item.key):
                    rows.append(replace(item, sender_id=received.message.sender_id))
                    last = item.key
            if rows:
                return rows[::-1], response.next is not None
        if not peers:
            raise problem
        return [], False

    async def _once(self, effect: fx.Ask) -> Response:
        return await exchange.ask(
            self._host,
            ID.from_string(effect.peer),
            Request(self._channel.topic_name, self._channel.channel_id, effect),
            within=self._channel.params.pull_timeout,
            max_size=self._channel.params.page_bytes + 2 * self._channel.params.max_message,
        )

    async def _take_in(self, effect: fx.Ask, response: Response, *, more: bool = False) -> None:
        await self._channel.act(
            lambda participant, now: participant.answered(
                effect, response, self._served, now, more=more
            )
        )

    def _served(self, item: StoredMessage, peer: str) -> ReceivedMessage | None:
        return self._channel.accepted(self._channel.intake.served(item, peer))


def _next_below(place: Key) -> Key:
    """A bound behind all places before this one. Of a page that ends with the place itself, which
    may be as large as a page, nothing else would come."""
    start, last = place[1][:-1], place[1][-1:]
    below = "" if last in "\0\ue000" else f"{chr(ord(last) - 1)}\U0010ffff"
    return place[0], start + below
