"""Every parameter of the tracer: unit, default, source of the default."""

from __future__ import annotations

from dataclasses import dataclass

from episub_router.util.params import check_numbers, param


@dataclass(frozen=True, slots=True, kw_only=True)
class TracerParams:
    """Parameters of `Tracer`. Raises ValueError for one that is not positive."""

    queue_events: int = param(1 << 16, "events", "go-libp2p-pubsub: TraceBufferSize")
    """Events that wait to be written."""
    queue_bytes: int = param(
        32 << 20, "bytes", "chosen: bound of memory; an IHAVE with 5000 ids takes 200 kB"
    )
    """Bytes of these."""
    max_size: int = param(64 << 20, "bytes", "go-libp2p-pubsub-tracer: rotates at 64 MiB")
    """Size at which a file is complete and the next one begins."""
    max_age: float = param(3600.0, "s", "go-libp2p-pubsub-tracer: rotates after an hour")
    """Age at which a file is complete."""
    flush_interval: float = param(1.0, "s", "chosen: what a crash of the process loses at most")
    """Time between two writes."""
    report_interval: float = param(10.0, "s", "chosen: how soon losses show; 4 bytes a second")
    """Time between two reports of what was written and lost."""

    def __post_init__(self) -> None:
        check_numbers(self, endless=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorParams:
    """Parameters of `TraceCollector`. Raises ValueError for one that is not positive."""

    max_size: int = param(64 << 20, "bytes", "go-libp2p-pubsub-tracer: rotates at 64 MiB")
    max_age: float = param(10.0, "s", "chosen: how soon a stream of the pipeline sees what came")
    max_peers: int = param(1000, "peers", "chosen: files that are open at a time")

    def __post_init__(self) -> None:
        check_numbers(self, endless=True)
