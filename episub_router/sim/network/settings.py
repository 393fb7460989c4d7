"""Settings of a scenario's hosts."""

from __future__ import annotations

from dataclasses import dataclass

from episub_router.sim.strict import ScenarioError, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """The hosts and what connects them."""

    nodes: int = setting(1000, least=2, most=1_000_000)
    jitter: float = setting(0.0, least=0, most=10)
    """Share of the delay that is added at random to each message, uniform in [0, jitter]."""
    loss: float = setting(0.0, least=0, most=0.9)
    """Share of the messages that are lost."""
    uplink: float = setting(0.0, least=0)
    """Megabit per second that a host can send; 0 is no limit."""
    uplinks: tuple[float, ...] = ()
    """Likewise, where hosts differ: each draws one."""
    downlink: float = setting(0.0, least=0)
    """Megabit per second that a host can receive; 0 is no limit."""
    dial_round_trips: float = setting(4.0, least=0.5, most=20)
    """Round trips to open a connection: TCP, protocol selection, Noise XX, muxer and stream."""
    dial_timeout: float = setting(5.0, above=0)
    """Seconds until a dial that can't succeed fails; go-libp2p's limit for one dial."""
    crash_notice: float = setting(1.0, least=0)
    """Seconds until the peers of a crashed or cut-off host notice."""
    nat_share: float = setting(0.0, least=0, most=0.95)
    """Share of the hosts that can dial but not be dialled."""

    def __post_init__(self) -> None:
        if self.uplinks and (self.uplink or min(self.uplinks) <= 0):
            raise ScenarioError("network.uplinks must be more than 0, and uplink left out")

    @property
    def ideal(self) -> bool:
        """Whether messages arrive after the latency of their link, all of them."""
        limited = self.uplink or self.uplinks or self.downlink
        return not (self.loss or self.jitter or limited)
