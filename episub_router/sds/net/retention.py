"""Removing what a store's retention doesn't keep, and telling the channels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import trio

from episub_router.sds.net.access import StoreAccess
from episub_router.sds.protocol.effects import UnreadDropped
from episub_router.sds.protocol.params import SdsParams


async def trim_unread(
    access: StoreAccess,
    key: str,
    params: SdsParams,
    counts: Counter[str],
    tell: Callable[[UnreadDropped], None],
) -> None:
    """Keep at most `unread_limit` of what left the log unread, and say what went."""
    gone = await access.run(lambda: access.store.trim_unread(key, params.unread_limit))
    _say(gone, counts, tell)


def _say(gone: int, counts: Counter[str], tell: Callable[[UnreadDropped], None]) -> None:
    if gone:
        counts["unread-dropped"] += gone
        tell(UnreadDropped(gone))


async def purge_regularly(
    access: StoreAccess, counts: Counter[str], unread_limit: int | None = None
) -> None:
    """Until cancelled. Of several channels with one store, one at a time has something to do."""
    store = access.store
    while store.retention is not None:
        interval = store.retention.interval
        if trio.current_time() >= access.purge_at:
            access.purge_at = trio.current_time() + interval
            for key, purged in (await access.run(lambda: store.purge(unread_limit))).items():
                counts["purged"] += len(purged.ids)
                user = access.users.get(key)
                if user is not None:
                    user.purged(purged.ids, purged.newest)
                    _say(purged.unread, counts, user.tell)
        await trio.sleep_until(access.purge_at)
