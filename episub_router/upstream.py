"""Whether the installed py-libp2p has what this package uses of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import version

HOOKS: Mapping[str, Mapping[str, str]] = {
    "libp2p.pubsub.pubsub:Pubsub": {
        "open_peer_stream": "_handle_new_peer",
        "lose_peer_stream": "_handle_dead_peer",
        "announce_later": "_schedule_announce_retry",
    },
    "libp2p.pubsub.gossipsub:GossipSub": {"receivers": "_get_peers_to_send"},
    "libp2p.network.swarm:Swarm": {"dial_addr_once": "_dial_addr_single_attempt"},
}
"""Hooks that are used where they are there, and the private methods in their place, by class;
docs/upstream.md says what for."""


@cache
def check_libp2p() -> None:
    """Raises ImportError that names what py-libp2p lacks, in one line."""
    missing = []
    for where, hooks in HOOKS.items():
        module, _, owner = where.partition(":")
        has = getattr(import_module(module), owner, None)
        missing += [
            f"{where} has neither {hook} nor {private}"
            for hook, private in hooks.items()
            if not hasattr(has, hook) and not hasattr(has, private)
        ]
    if missing:
        raise unfit(", ".join(missing))


def unfit(reason: str) -> ImportError:
    """What is raised for `reason`."""
    return ImportError(
        f"py-libp2p {version('libp2p')} is not what episub-router runs with "
        f"(pip install 'libp2p>=0.8.1,<0.9'): {reason}"
    )
