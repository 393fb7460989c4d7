"""HyParView as Episub reworks it (E01-E21): a topic's overlay of random and near links.

Each node has a small active view, its links, and a larger passive view of spare peers. Joins,
shuffles and neighbour requests keep the overlay connected; rings choose its random links, and
proximity makes the others near. `machine.HyParView` is the machine; each other module holds one
procedure. What drivers, the simulator and tests need of them is imported from here.
"""

from episub_router.protocol.hyparview.active_view import (
    RTT_FAILURES,
    ActiveView,
    Link,
)
from episub_router.protocol.hyparview.join import (
    CONTACTS_ASKED,
    JOIN_LIFETIME,
    JOIN_TIMEOUT,
    MAX_CONTACTS,
    NODES_TIMEOUT,
    RINGS_FIRST,
)
from episub_router.protocol.hyparview.join_handler import (
    MAX_RECENT_JOINERS,
    RECENT,
)
from episub_router.protocol.hyparview.machine import (
    LEAVE_TTL,
    HyParView,
)
from episub_router.protocol.hyparview.neighbor import (
    MAX_MEASURING,
    NEIGHBOR_TIMEOUT,
    REFUSED_BACKOFF,
    REFUSED_BACKOFF_IN_NEED,
)
from episub_router.protocol.hyparview.overlay import (
    MAX_DIALS,
    MAX_DIALS_FOR_OTHERS,
    PASSIVE_SHARE,
    Timer,
)
from episub_router.protocol.hyparview.passive_view import PassiveView
from episub_router.protocol.hyparview.rate_limits import (
    LIMITS,
    MAX_PEERS,
    REQUEST_LIMIT,
    RateLimiter,
)
from episub_router.protocol.hyparview.reconnection import (
    CONTACT_INTERVAL,
    RECONNECT_INTERVAL,
)
from episub_router.protocol.hyparview.ring_places import (
    Places,
    place,
)
from episub_router.protocol.hyparview.rings import (
    SEARCH_INTERVAL,
    SEARCH_INTERVAL_MOST,
)
from episub_router.protocol.hyparview.shuffle import (
    MAX_ANSWERED,
    SHUFFLE_ACTIVE,
    SHUFFLE_PASSIVE,
    SHUFFLE_TIMEOUT,
    SHUFFLE_TTL,
)
from episub_router.protocol.hyparview.stabilization import (
    LIST_TIMEOUT,
    STABILIZE_INTERVAL,
)
from episub_router.protocol.hyparview.trickle import Trickle

__all__ = [
    "CONTACTS_ASKED",
    "CONTACT_INTERVAL",
    "JOIN_LIFETIME",
    "JOIN_TIMEOUT",
    "LEAVE_TTL",
    "LIMITS",
    "LIST_TIMEOUT",
    "MAX_ANSWERED",
    "MAX_CONTACTS",
    "MAX_DIALS",
    "MAX_DIALS_FOR_OTHERS",
    "MAX_MEASURING",
    "MAX_PEERS",
    "MAX_RECENT_JOINERS",
    "NEIGHBOR_TIMEOUT",
    "NODES_TIMEOUT",
    "PASSIVE_SHARE",
    "RECENT",
    "RECONNECT_INTERVAL",
    "REFUSED_BACKOFF",
    "REFUSED_BACKOFF_IN_NEED",
    "REQUEST_LIMIT",
    "RINGS_FIRST",
    "RTT_FAILURES",
    "SEARCH_INTERVAL",
    "SEARCH_INTERVAL_MOST",
    "SHUFFLE_ACTIVE",
    "SHUFFLE_PASSIVE",
    "SHUFFLE_TIMEOUT",
    "SHUFFLE_TTL",
    "STABILIZE_INTERVAL",
    "ActiveView",
    "HyParView",
    "Link",
    "PassiveView",
    "Places",
    "RateLimiter",
    "Timer",
    "Trickle",
    "place",
]
