"""The tables of counters, from the enums: a comment beside a member, or the docstring below."""

from __future__ import annotations

import inspect
import re
from enum import Enum

from episub_router import PubsubDrop
from episub_router.net.counters import Ordinary, Reason
from episub_router.protocol.effects import DropReason
from episub_router.wire import WireFault
from episub_router.wire.peer_records import RecordFault
from tests.docs import marked

COUNTERS: dict[str, tuple[type[Enum], ...]] = {
    "events": (Ordinary, Reason, DropReason),
    "faults": (WireFault, RecordFault),
    "drops": (PubsubDrop,),
}

_MEMBER = re.compile(r'^    [A-Z_]+ = "([a-z-]+)"(?:  # (.+)|\n    """([^"]+)""")', re.MULTILINE)


def meanings(names: type[Enum]) -> dict[str, str]:
    """What each counter counts."""
    found = _MEMBER.findall(inspect.getsource(names))
    return {name: " ".join((comment or text).split()).rstrip(".") for name, comment, text in found}


def table(kind: str) -> str:
    found = {name: text for names in COUNTERS[kind] for name, text in meanings(names).items()}
    rows = [(f"`{name}`", text) for name, text in found.items()]
    return marked.table(("counter", "what is counted"), rows)
