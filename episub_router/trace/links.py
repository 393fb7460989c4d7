"""Changes of the eager links of a tree."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any


def changes(
    before: dict[Any, None], eager: Collection[Any], neighbors: Collection[Any]
) -> list[tuple[Any, str]]:
    """(peer, state) for each change from `before` to `eager`; state as in TreeMeta.

    Peers of `neighbors` that aren't eager are lazy.
    """
    gone = [(peer, "lazy" if peer in neighbors else "none") for peer in before if peer not in eager]
    return gone + [(peer, "eager") for peer in eager if peer not in before]
