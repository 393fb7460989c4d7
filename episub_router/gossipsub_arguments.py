"""The arguments of py-libp2p's `GossipSub`, as those of an `EpisubRouter`.

docs/from-gossipsub.md has what becomes of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Signature, signature
from typing import Any, TypedDict

from libp2p.peer.id import ID
from libp2p.pubsub.extensions import PeerExtensions
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.score import ScoreParams
from multiaddr import Multiaddr

from episub_router.fallback import FallbackParams
from episub_router.net.discovery.rendezvous import Discovery
from episub_router.net.params import RouterParams
from episub_router.protocol.params import EpisubParams
from episub_router.trace.tracer import Tracer


class GossipSubOptions(TypedDict, total=False):
    """Keyword arguments of `GossipSub`, and those of `EpisubRouter` that may stand beside them."""

    time_to_live: int
    gossip_window: int
    gossip_history: int
    heartbeat_initial_delay: float
    heartbeat_interval: float
    direct_connect_initial_delay: float
    direct_connect_interval: float
    do_px: bool
    px_peers_count: int
    prune_back_off: int
    unsubscribe_back_off: int
    score_params: ScoreParams | None
    max_idontwant_messages: int
    adaptive_gossip_enabled: bool
    spam_protection_enabled: bool
    max_messages_per_topic_per_second: float
    eclipse_protection_enabled: bool
    min_mesh_diversity_ips: int
    my_extensions: PeerExtensions | None
    max_pending_messages_per_peer: int
    pending_messages_ttl: float
    params: EpisubParams | None
    router_params: RouterParams | None
    offer_episub: bool
    bootstrap: Iterable[Multiaddr | str]
    discovery: Iterable[Discovery]
    may_ban: Callable[[str, ID], bool] | None
    protected_topics: Iterable[str]
    seed: int | None
    tracer: Tracer | None


_FALLBACK = {
    "degree": "degree",
    "degree_low": "degree_low",
    "degree_high": "degree_high",
    "heartbeat_interval": "heartbeat_interval",
    "prune_back_off": "prune_backoff",
    "unsubscribe_back_off": "unsubscribe_backoff",
    "direct_connect_interval": "direct_connect_interval",
}
"""Arguments that are parameters of the embedded GossipSub, under these names."""

_UNSEEN = (
    "time_to_live",
    "heartbeat_initial_delay",
    "direct_connect_initial_delay",
    "max_pending_messages_per_peer",
    "pending_messages_ttl",
)
"""Times and bounds inside of GossipSub: taken, and not used; here they are constants."""

_AS_HERE: Mapping[str, Any] = {
    "gossip_window": 3,
    "gossip_history": 5,
    "adaptive_gossip_enabled": False,
    "spam_protection_enabled": False,
    "max_idontwant_messages": 1000,
}
"""What holds here anyway; whoever asks for less has it, too."""

_IN_PLACE: Mapping[str, str] = {
    "gossip_window": "BroadcastParams.cache_ttl says how long messages are kept",
    "gossip_history": "BroadcastParams.cache_messages and cache_bytes say how many are kept",
    "max_idontwant_messages": "1,000 ids of each peer are kept",
    "do_px": "the overlay exchanges peers by itself",
    "px_peers_count": "the overlay exchanges peers by itself",
    "score_params": "what one peer may do is bounded by fixed limits",
    "max_messages_per_topic_per_second": "limit a topic in its validator",
}
"""What there is in the place of arguments that are refused."""


def router_options(arguments: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of `EpisubRouter` for what a `GossipSub` was made with.

    Raises TypeError for what `GossipSub` doesn't take, and ValueError that names each argument
    that has no meaning here, unless its value is GossipSub's default or what holds here anyway.
    """
    made = signature(GossipSub).bind(*arguments, **options).arguments
    refused = [name for name, value in made.items() if not _is_taken(name, value)]
    if refused:
        said = f"an EpisubRouter has nothing like GossipSub's {', '.join(sorted(refused))}"
        notes = [f"{name}: {_IN_PLACE[name]}" for name in refused if name in _IN_PLACE]
        raise ValueError("; ".join([said, *notes]))
    wanted = {name: made[theirs] for theirs, name in _FALLBACK.items() if theirs in made}
    fallback = FallbackParams(protocols=tuple(made["protocols"]), **wanted)
    return {"fallback": fallback, "direct_peers": tuple(made.get("direct_peers") or ())}


def _is_taken(name: str, value: Any) -> bool:
    if name in ("protocols", "direct_peers", *_FALLBACK, *_UNSEEN):
        return True
    default = signature(GossipSub).parameters[name].default
    if not isinstance(value, int | float):
        return default is not Signature.empty and bool(value == default)
    if name == "max_messages_per_topic_per_second":
        return bool(value >= default)  # there is no such limit here
    return bool(value == default or (name in _AS_HERE and value <= _AS_HERE[name]))
