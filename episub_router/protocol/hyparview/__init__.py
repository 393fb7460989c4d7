"""HyParView as Episub reworks it (E01-E21): a topic's overlay of random and near links.

Each node has a small active view, its links, and a larger passive view of spare peers. Joins,
shuffles and neighbour requests keep the overlay connected; proximity makes part of it near.
`machine.HyParView` is the machine; each other module holds one procedure.
"""

from episub_router.protocol.hyparview.machine import HyParView

__all__ = ["HyParView"]
