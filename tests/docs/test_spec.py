"""docs/spec/episub-r2.md has the schema and the defaults as they are."""

from __future__ import annotations

import re

from episub_router.protocol.hyparview.machine import LEAVE_TTL
from episub_router.protocol.hyparview.shuffle import SHUFFLE_TTL
from episub_router.protocol.params import ACTIVE_SLACK, EpisubParams
from episub_router.protocol.plumtree.lazy_push import LAZY_DELAY
from episub_router.protocol.plumtree.missing_messages import LOST_AFTER
from episub_router.protocol.plumtree.source_trees import ROOT_INTERVAL
from episub_router.protocol.plumtree.state import LATE_ANSWER
from episub_router.protocol.plumtree.tree import SETUP, STANDBYS, TREE_IDLE
from tests.docs.snippets import ROOT

SPEC = (ROOT / "docs" / "spec" / "episub-r2.md").read_text(encoding="utf-8")


def messages(schema: str) -> list[str]:
    """Messages without comments, spaces made one."""
    bare = re.sub(r"//[^\n]*", "", schema)
    return [" ".join(part.split()) for part in re.split(r"^(?=message )", bare, flags=re.MULTILINE)]


def test_the_schema_is_that_of_the_protocol() -> None:
    blocks = re.findall(r"^```protobuf\n(.*?)^```$", SPEC, re.MULTILINE | re.DOTALL)
    ours = messages((ROOT / "proto" / "episub.proto").read_text(encoding="utf-8"))
    # The first block has the extension's codepoint, the first messages of ours as well.
    assert messages(blocks[1]) == ["", *ours[3:]]
    number = re.findall(r"episub = (\d+);", ours[1] + ours[2])
    assert re.findall(r"episub = (\d+);", blocks[0]) == number


def test_the_defaults_are_those_of_the_protocol() -> None:
    parameters = SPEC.partition("\n## Parameters\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^|]+)` \| [^|]+ \| ([^|]+) \|$", parameters, re.MULTILINE)
    told = {
        name: re.sub(r" KiB| s$| \(.*\)", "", value)
        for names, values in rows
        for name, value in zip(names.split("`, `"), values.split(", "), strict=True)
    }
    overlay, trees = EpisubParams().membership, EpisubParams().broadcast
    values = {
        "A": overlay.active_size, "A_slack": ACTIVE_SLACK, "C_rand": overlay.random_links,
        "C_near": overlay.near_links, "rings": overlay.rings, "P": overlay.passive_size,
        "alpha": overlay.rtt_advantage, "join_ttl": overlay.join_ttl,
        "lazy_interval": trees.lazy_interval, "cache_ttl": trees.cache_ttl,
        "seen_ttl": trees.seen_ttl, "source_trees": trees.source_trees,
        "piece_threshold": trees.piece_threshold / 1024, "piece_children": trees.piece_children,
        "shuffle_ttl": SHUFFLE_TTL, "leave_ttl": LEAVE_TTL, "lazy_delay": LAZY_DELAY,
        "lost_after": LOST_AFTER, "answer_time": LATE_ANSWER, "standbys": STANDBYS,
        "setup": SETUP, "root_interval": ROOT_INTERVAL, "tree_ttl": TREE_IDLE,
    }  # fmt: skip
    assert {name: float(told[name]) for name in values} == values
