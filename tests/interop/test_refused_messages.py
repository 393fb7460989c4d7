"""A message that an Episub node doesn't accept goes no further."""

from __future__ import annotations

import base64

import pytest

from interop.harness.lab import Lab
from interop.harness.links import mesh_link
from interop.harness.peer import Peer
from interop.harness.traffic import Traffic

TOPIC = "refused"


async def refused(bad: bytes, author: Peer, bridge: Peer, receivers: list[Peer]) -> None:
    """Publish `bad`; once the bridge has it, what it sends next must be all that comes."""
    text = base64.b64encode(bad).decode()
    await author.send("publish", topic=TOPIC, data=text)
    published = await author.event("published", size=len(bad))
    await bridge.event("copy", peer=author.id, sha256=published["sha256"])
    traffic = Traffic(TOPIC)
    await traffic.publish(bridge, receivers, [10, 1024])
    traffic.check()


@pytest.mark.peers("js", "rust", "py")
@pytest.mark.parametrize(
    "kind", ["js", "rust", "py", pytest.param("go", marks=pytest.mark.peers("go")), "episub"]
)
async def test_what_the_validator_rejects_is_not_forwarded(lab: Lab, kind: str) -> None:
    author = await lab.start(kind, topics=[TOPIC])
    bridge = await lab.start("episub", "--reject=bad", topics=[TOPIC])
    # Another Episub node would link with the author itself, and it has no validator.
    behind = ("js", "rust") if kind == "episub" else ("js", "rust", "episub")
    others = [await lab.start(other, topics=[TOPIC]) for other in behind]
    for peer in (author, *others):
        await mesh_link(peer, bridge, TOPIC)
    await refused(b"bad news", author, bridge, others)
    assert not bridge.reported("delivery", **{"from": author.id})


@pytest.mark.peers("js", "rust", "py")
@pytest.mark.parametrize(
    ("kind", "flag"),
    [
        pytest.param(kind, flag, marks=pytest.mark.peers(kind), id=f"{kind}{flag}")
        for kind, flag in (
            ("rust", "--no-sign"),
            ("js", "--no-sign"),
            ("py", "--no-sign"),
            ("go", "--no-sign"),
            ("py", "--bad-sign"),
            ("go", "--bad-sign"),
        )
    ],
)
async def test_what_is_not_signed_by_its_author_is_not_forwarded(
    lab: Lab, kind: str, flag: str
) -> None:
    author = await lab.start(kind, flag, topics=[TOPIC])
    bridge = await lab.start("episub", topics=[TOPIC])
    others = [await lab.start(other, topics=[TOPIC]) for other in ("js", "rust", "episub")]
    for peer in (author, *others):
        await mesh_link(peer, bridge, TOPIC)
    await refused(b"not by me", author, bridge, others)
    assert not bridge.reported("delivery", **{"from": author.id})
