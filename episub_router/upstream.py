"""Whether the installed py-libp2p has what this package uses of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version

PRIVATE: Mapping[str, Sequence[str]] = {
    "libp2p.pubsub.pubsub:Pubsub": (
        "_handle_new_peer",
        "_handle_dead_peer",
        "_schedule_announce_retry",
    ),
    "libp2p.pubsub.gossipsub:GossipSub": (
        "_notify_mesh_peer_added",
        "_select_peers_for_pruning",
        "_check_back_off",
        "_get_in_topic_gossipsub_peers_from_minus",
        "_get_peers_to_send",
        "_do_px",
        "_add_back_off",
    ),
}
"""Private methods that are called or replaced, by class; docs/upstream.md says what for."""


@cache
def check_libp2p() -> None:
    """Raises ImportError that names what py-libp2p lacks, in one line."""
    missing = []
    for where, names in PRIVATE.items():
        module, _, owner = where.partition(":")
        has = getattr(import_module(module), owner, None)
        missing += [f"{where} has no {name}" for name in names if not hasattr(has, name)]
    if missing:
        raise unfit(", ".join(missing))


def unfit(reason: str) -> ImportError:
    """What is raised for `reason`."""
    return ImportError(
        f"py-libp2p {version('libp2p')} is not what episub-router runs with "
        f"(pip install 'libp2p>=0.8.1,<0.9'): {reason}"
    )
