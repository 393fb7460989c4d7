"""HyParView as Episub reworks it (E01-E21): a topic's overlay of random and near links.

Each node has a small active view, its links, and a larger passive view of spare peers. Joins,
shuffles and neighbour requests keep the overlay connected; rings choose its random links, and
proximity makes the others near. Each module holds one procedure, `machine.HyParView` joins them.
"""

from episub_router.protocol.hyparview.join import CONTACTS_ASKED
from episub_router.protocol.hyparview.machine import LEAVE_TTL, HyParView
from episub_router.protocol.hyparview.places import Places, place

__all__ = ["CONTACTS_ASKED", "LEAVE_TTL", "HyParView", "Places", "place"]
