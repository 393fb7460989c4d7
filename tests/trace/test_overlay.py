"""What the router counts: failures are traced, successes aren't."""

from __future__ import annotations

from pathlib import Path

from libp2p.peer.id import ID

from episub_router.net.counters import Counters, Ordinary, Reason
from episub_router.trace.node import NodeTrace
from episub_router.trace.node.overlay import OverlayTrace
from episub_router.trace.tracer import Tracer
from tests.trace.samples import events_of


def test_what_went_well_is_no_discard(tmp_path: Path) -> None:
    path = tmp_path / "t.pb"
    with Tracer(path) as tracer:
        counters = Counters()
        node = NodeTrace(tracer, ID(b"me"), "episub", lambda message: message.seqno)
        counters.listen(OverlayTrace(node, Ordinary).counted)
        counters.add(Ordinary.CONTACTS_FOUND, 2)
        counters.add(Ordinary.DELIVERED)
        counters.add(Reason.DISCOVERY_UNUSABLE, 3)
    discards = [event.discard for event in events_of(path) if event.HasField("discard")]
    assert [(discard.reason, discard.count) for discard in discards] == [("discovery-unusable", 3)]
