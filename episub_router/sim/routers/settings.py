"""Settings of the routers that a scenario can compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from episub_router.protocol.params import EpisubParams
from episub_router.sim.routers.params import PRESETS, FloodsubParams


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisubConfig:
    """The core, with its own parameters (`protocol.params`)."""

    kind: ClassVar[str] = "episub"
    params: EpisubParams = field(default_factory=EpisubParams)


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipsubConfig:
    """The gossipsub model (`routers.gossipsub`): a preset, and what departs from it."""

    kind: ClassVar[str] = "gossipsub"
    preset: Literal["v1.1", "v1.0", "simsub-2018"] = "v1.1"
    scoring: bool = False
    """Peer scores (`routers.gossipsub_scored`), which matter where some peers are hostile."""
    params: dict[str, Any] = field(default_factory=dict)
    """With `choke_interval` or `choke_after`, CHOKE and UNCHOKE (`routers.gossipsub_choke`); with
    `preamble` or `fragment_size`, the drafts for large messages (`routers.gossipsub_large`)."""

    def __post_init__(self) -> None:
        is_choking = any(map(self.params.get, ("choke_interval", "choke_after")))
        if is_choking + self.is_large + self.scoring > 1:
            raise ValueError("scoring, choking and large messages aren't modelled together")

    @property
    def is_large(self) -> bool:
        """Whether large messages go in one of the v1.4 drafts' ways."""
        return any(map(self.params.get, ("preamble", "fragment_size")))

    def merged(self) -> dict[str, Any]:
        """The preset's values with this scenario's on top."""
        return {**PRESETS[self.preset], **self.params}


@dataclass(frozen=True, slots=True, kw_only=True)
class FloodsubConfig:
    """floodsub."""

    kind: ClassVar[str] = "floodsub"
    params: FloodsubParams = field(default_factory=FloodsubParams)

    def merged(self) -> dict[str, Any]:
        """What of it the gossipsub model knows."""
        return {"connect": self.params.connect}


RouterConfig: TypeAlias = EpisubConfig | GossipsubConfig | FloodsubConfig
