"""What a report says, as plain data: the same for every format that it is written in.

Times are nanoseconds unless a name says otherwise; figures are those of docs/metrics.md.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Drawing:
    """The tree of one message, and the overlay that it grew in. Peers are numbers: places in
    `peers`; `places` has where each is drawn, x and y from -1 to 1."""

    message: str
    peers: list[str]
    depths: list[int | None]
    places: list[tuple[float, float]]
    tree: list[tuple[int, int]]
    """(parent, child)."""
    overlay: list[tuple[int, int]]
    kind: str | None
    """Of the overlay's links: active, eager or stream."""
    left_out: int
    """Peers that are not drawn."""


@dataclass(frozen=True, slots=True)
class TopicReport:
    """A topic in a run."""

    label: str
    run: str
    topic: str
    figures: dict[str, float | None]
    """By the names of `figures.FIGURES`."""
    latencies: list[tuple[int, float]]
    """(ms, share of the deliveries that took less), the latencies' distribution."""
    messages: list[Row]
    """index, after (s since the run began), reliability, rmr, ldh, duplicates, latency_p99 (ns, or
    None); means of several where there are very many, of reliability and latency the worst."""
    degrees: dict[str, list[int]]
    """Kind of link to peers by degree, from 0, at the end."""
    overlay: list[Row]
    """kind, after (s), proximity_ratio, degree_mean, components, symmetry at each look."""
    faults: list[Row]
    """after (s) and the columns of `recovery`."""
    missing: dict[str, int]
    duplicates: dict[str, int]
    """By cause."""
    drawing: Drawing | None
    rest: Row = field(default_factory=dict)
    """What was published without any fault: messages, live, delivered, late, latency_p50,
    latency_p99."""
    causes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Cause to how many pairs of message and peer were late, and how many lost."""
    of_runs: list[dict[str, float | None]] = field(default_factory=list)
    """The figures in each run of the side, this one's first."""

    seeds: list[str] = field(default_factory=list)
    """Of these runs."""

    def by_seed(self, figure: str) -> dict[str, float | None]:
        """The figure by the seed of the run."""
        values = self.values(figure)
        seeds = (
            self.seeds if len(self.seeds) == len(values) else [str(n) for n in range(len(values))]
        )
        return dict(zip(seeds, values, strict=True))

    def values(self, figure: str) -> list[float | None]:
        """The figure in each run of the side."""
        return [figures[figure] for figures in self.of_runs or [self.figures]]


@dataclass(frozen=True, slots=True)
class Run:
    """A run, and what isn't given by topic."""

    name: str
    about: Row
    """Of the traces' headers: router, scenario, seed, software, each value once, and whether it was
    simulated; empty if there are none."""
    quality: Row
    control: list[Row]
    """kind, sends, ids, bytes, and each per delivery."""
    losses: list[Row]
    """kind, reason, count; the most frequent."""
    load: list[tuple[float, int, int | None]]
    """(share of the peers that bear more, messages sent, bytes sent), falling."""
    balance: dict[str, Row]
    """Figure of `load` to mean, max and gini over the peers."""
    clocks: list[Row]
    """peer, offset, uncertainty, note: the clocks that are off most."""
    channels: list[Row]
    """SDS channels."""
    topics: list[TopicReport]
    topics_left_out: int
    faults: list[Row] = field(default_factory=list)
    """Times at which peers weren't there or were apart: the columns of `faults`, and of them after,
    until, calm_after (s; None: to the end)."""
    worst: list[Row] = field(default_factory=list)
    """The peers that fared worst: the columns of `peers.worst`, and why."""
    groups: list[Row] = field(default_factory=list)
    """How peers fared that have a trait in common: the columns of `peers.by_trait`."""
    replicas: list[str] = field(default_factory=list)
    """Other runs of the same side, of which figures alone are in the report."""


@dataclass(frozen=True, slots=True)
class Report:
    """Runs, and the one that they are held against."""

    runs: list[Run]
    baseline: Run | None
    deadline: float
    """Seconds."""
    notes: list[str] = field(default_factory=list)

    @property
    def all_runs(self) -> list[Run]:
        """The runs, the baseline first."""
        return [*([self.baseline] if self.baseline else []), *self.runs]

    @property
    def topics(self) -> list[TopicReport]:
        """All topics, the baseline's first."""
        return [topic for run in self.all_runs for topic in run.topics]

    def baseline_of(self, topic: TopicReport) -> TopicReport | None:
        """What `topic` is held against: the same topic of the baseline, or its only one."""
        if self.baseline is None or topic.run == self.baseline.name:
            return None
        others = self.baseline.topics
        same = [other for other in others if other.topic == topic.topic]
        return same[0] if same else others[0] if len(others) == 1 else None

    def to_dict(self) -> Row:
        """As JSON has it."""
        return asdict(self)
