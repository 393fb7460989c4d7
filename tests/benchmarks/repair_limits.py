"""The least that repair takes: p99 where frames are lost or nodes have crashed, and the control
bytes that one node costs others by coming and going.

Messages go along shortest-path trees, as if those always stood. A node that its parent's copy does
not reach is announced the message by other neighbours at once, and asks the first of them when the
copy is overdue: one round trip, if that neighbour has it in time.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from episub_router.protocol import messages as msg
from episub_router.protocol.params import MembershipParams
from episub_router.sim.sizes import episub_control

Links = Sequence[Sequence[tuple[int, float]]]
"""The neighbours of each node, and the seconds to each."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong while messages spread."""

    loss: float
    """Share of frames lost."""
    crashed: Collection[int]
    """Nodes that have crashed, which no neighbour has noticed."""


def arrivals(
    links: Links, parents: Sequence[int], usual: Sequence[float], source: int, fault: Fault,
    rng: random.Random, *, repair_lossy: bool,
) -> list[float]:  # fmt: skip
    """Seconds from the source to each node, infinite where nothing comes. `parents` and `usual` are
    the tree and its arrivals without faults; with `repair_lossy` announcements, requests and
    answers are lost as payloads are, and not sent again."""
    times = [float("inf")] * len(links)
    repaired = (1 - fault.loss) ** 3 if repair_lossy else 1.0
    heap = [(0.0, source)]
    while heap:
        now, node = heapq.heappop(heap)
        if times[node] <= now:
            continue
        times[node] = now
        for other, delay in links[node]:
            if other in fault.crashed or times[other] <= now:
                continue
            if parents[other] == node:
                if rng.random() >= fault.loss:
                    heapq.heappush(heap, (now + delay, other))
            elif rng.random() < repaired:
                asked = max(now + delay, usual[other])
                heapq.heappush(heap, (asked + 2 * delay, other))
    return times


def flooded(links: Links, source: int, fault: Fault, rng: random.Random) -> list[float]:
    """Seconds from the source to each node where all pass a message on over all links."""
    times = [float("inf")] * len(links)
    heap = [(0.0, source)]
    while heap:
        now, node = heapq.heappop(heap)
        if times[node] <= now:
            continue
        times[node] = now
        for other, delay in links[node]:
            if other not in fault.crashed and rng.random() >= fault.loss:
                heapq.heappush(heap, (now + delay, other))
    return times


def join_bytes(params: MembershipParams, trees: int) -> int:
    """Control bytes that one node's join takes at least, as docs/wire.md has it: one contact
    answers, each JOIN is accepted where it arrives, and each neighbour offers all trees once."""
    peers = tuple(range(msg.MAX_NODES))
    sources = tuple(range(trees))
    near = params.active_size - params.random_links
    accept = msg.Neighbor(msg.NeighborRole.ACCEPT, 7, msg.LinkKind.RANDOM)
    request = msg.Neighbor(msg.NeighborRole.REQUEST, 7, msg.LinkKind.NEAR)
    root = msg.Root(tuple(msg.TreeRoot(source, 1, 0.0) for source in sources))
    sent: list[tuple[int, msg.Message]] = [
        (1, msg.GetNodes()),
        (1, msg.Nodes(peers, params.join_ttl)),
        (params.random_links, msg.Join(0, params.join_ttl)),
        (near, request),
        (params.active_size, accept),
        (params.active_size, root),
        (1, msg.Graft(sources=sources)),
        (2, msg.Graft(standby=sources)),
    ]
    return sum(count * episub_control(message) for count, message in sent)


def leave_bytes(params: MembershipParams, trees: int) -> int:
    """Control bytes that follow a crash at least: each neighbour finds another, both offer their
    trees, and each tree has a child to graft on and two that lose a standby."""
    accept = msg.Neighbor(msg.NeighborRole.ACCEPT, 7, msg.LinkKind.RANDOM)
    request = msg.Neighbor(msg.NeighborRole.REQUEST, 7, msg.LinkKind.RANDOM)
    root = msg.Root(tuple(msg.TreeRoot(source, 1, 0.0) for source in range(trees)))
    # Of the links that are missing two make one.
    links = params.active_size / 2
    sent: list[tuple[float, msg.Message]] = [
        (links, request),
        (links, accept),
        (2 * links, root),
        (trees, msg.Graft(sources=(0,))),
        (2 * trees, msg.Graft(standby=(0,))),
    ]
    return round(sum(count * episub_control(message) for count, message in sent))
