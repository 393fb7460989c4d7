"""What a report says, as plain data: the same for every format that it is written in.

Times are nanoseconds unless a name says otherwise; figures are those of docs/metrics.md.
"""

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
    """A topic in a run. `figures` are by the names of `figures.FIGURES`; `latencies` the
    distribution as (ms, share of the deliveries that took less); `messages` have index, after (s
    since the run began), reliability, rmr, ldh, duplicates, latency_p99 (ns, or None): means of
    several where there are very many, of reliability and latency the worst; `degrees` are peers by
    degree, from 0, at the end, by kind of link; `overlay` has kind, after (s), proximity_ratio,
    degree_mean, components, symmetry at each look; `faults` after (s) and the columns of
    `recovery`; `rest` what was published without any fault: messages, live, delivered, late,
    latency_p50, latency_p99; `causes` how many pairs of message and peer were late, and lost. Of a
    side of several runs, `rest`, `causes`, `missing` and `duplicates` are sums over all of them,
    and the latencies of `rest` means."""

    label: str
    run: str
    topic: str
    figures: dict[str, float | None]
    latencies: list[tuple[int, float]]
    messages: list[Row]
    degrees: dict[str, list[int]]
    overlay: list[Row]
    faults: list[Row]
    missing: dict[str, int]
    duplicates: dict[str, int]
    drawing: Drawing | None
    rest: Row = field(default_factory=dict)
    causes: dict[str, tuple[int, int]] = field(default_factory=dict)
    of_runs: list[dict[str, float | None]] = field(default_factory=list)
    """The figures in each run of the side, this one's first."""
    seeds: list[str] = field(default_factory=list)
    """Of these runs."""

    def by_seed(self, figure: str) -> dict[str, float | None]:
        """The figure by the seed of the run."""
        values = self.values(figure)
        known = len(self.seeds) == len(values)
        return dict(zip(self.seeds if known else map(str, range(len(values))), values, strict=True))

    def values(self, figure: str) -> list[float | None]:
        """The figure in each run of the side."""
        return [figures[figure] for figures in self.of_runs or [self.figures]]


@dataclass(frozen=True, slots=True)
class Run:
    """A run, and what isn't given by topic. `about` is what the traces' headers say: router,
    scenario, seed, software, each value once, and whether it was simulated; `control` has kind,
    sends, ids, bytes, and each per delivery; `losses` kind, reason, count of the most frequent;
    `load`, falling, the share of the peers that bear more, and messages and bytes that each sent;
    `balance` the mean, max and gini of each figure of `load`; `clocks` those that are off most;
    `channels` those of SDS; `faults` the columns of `faults`, of all runs
    of the side, those that cost the most, and of them after, until, calm_after
    (s; None: to the end); `worst` the columns of `peers.worst`, and why; `groups` those of
    `peers.by_trait`; `replicas` other runs of the side, of which `faults` and what a topic
    says of all are in the report."""

    name: str
    about: Row
    quality: Row
    control: list[Row]
    losses: list[Row]
    load: list[tuple[float, int, int | None]]
    balance: dict[str, Row]
    clocks: list[Row]
    channels: list[Row]
    topics: list[TopicReport]
    topics_left_out: int
    faults: list[Row] = field(default_factory=list)
    worst: list[Row] = field(default_factory=list)
    groups: list[Row] = field(default_factory=list)
    replicas: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Report:
    """Runs, and the one that they are held against."""

    runs: list[Run]
    baseline: Run | None
    deadline: float
    """Seconds."""
    notes: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    """Runs whose traces are damaged."""

    @property
    def all_runs(self) -> list[Run]:
        """The runs, the baseline first."""
        return [*([self.baseline] if self.baseline else []), *self.runs]

    @property
    def topics(self) -> list[TopicReport]:
        """All topics, the baseline's first."""
        return [topic for run in self.all_runs for topic in run.topics]

    @property
    def compared(self) -> int:
        """How many topics are held against the baseline."""
        return sum(self.baseline_of(topic) is not None for topic in self.topics)

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
