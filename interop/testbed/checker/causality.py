"""Promises of SDS channels: causal, order, lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from interop.testbed.checker.calm import Calm
from interop.testbed.checker.violation import Violation
from interop.testbed.history.records import Accepted, Delivered, History


def check(history: History, calm: Calm) -> Iterator[Violation]:
    """All violations of these promises; of hosts that run SDS."""
    hosts = [host for host, kind in enumerate(history.kinds) if kind == "sds"]
    if hosts:
        yield from _causal(history, hosts)
        yield from _logs(history, hosts, calm)


def _causal(history: History, hosts: list[int]) -> Iterator[Violation]:
    """Nothing is delivered before what its author had sent or delivered before it."""
    past = _pasts(history, hosts)
    have: defaultdict[int, set[str]] = defaultdict(set)
    for event in history.events:
        if isinstance(event, Accepted):
            have[event.host].add(event.message)
        elif isinstance(event, Delivered) and event.host in hosts:
            if not event.missing:
                yield from _too_early(event, past.get(event.message, ()), have[event.host])
            have[event.host].add(event.message)


def _pasts(history: History, hosts: list[int]) -> dict[str, tuple[str, ...]]:
    """What each message depends on: the last message of each author that its own author had sent
    or delivered. Those before follow from these."""
    latest: defaultdict[int, dict[int, str]] = defaultdict(dict)
    """By host and author."""
    shown: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    used: defaultdict[tuple[int, int], int] = defaultdict(int)
    """How many of a session's deliveries are in `latest`."""
    past: dict[str, tuple[str, ...]] = {}
    for event in history.events:
        if event.host not in hosts:
            continue
        session = (event.host, event.session)
        if isinstance(event, Delivered):
            shown[session].append(event.message)
        elif isinstance(event, Accepted):
            before = max(event.after, used[session])
            for message in shown[session][used[session] : before]:
                if message in history.asked:
                    latest[event.host][history.asked[message][1]] = message
            used[session] = before
            past[event.message] = tuple(latest[event.host].values())
            latest[event.host][event.host] = event.message
    return past


def _too_early(event: Delivered, past: Iterable[str], have: set[str]) -> Iterator[Violation]:
    for before in past:
        if before not in have:
            text = f"host {event.host} got {event.message} before {before}, on which it depends"
            yield Violation("causal", event.time, text)


def _logs(history: History, hosts: list[int], calm: Calm) -> Iterator[Violation]:
    """In the end all logs are the same, and have everything that was accepted."""
    end = history.duration
    logs = {log.host: log.messages for log in history.logs}
    settled = [host for host in hosts if calm.host(host, end, end)]
    if not settled:
        return
    for host in settled:
        if host not in logs:
            yield Violation("lost", end, f"host {host} reported no log")
    reported = [host for host in settled if host in logs]
    accepted = [event for event in history.accepted if event.host in hosts]
    for host in reported:
        have = set(logs[host])
        if len(have) != len(logs[host]):
            yield Violation("order", end, f"the log of host {host} has messages twice")
        for event in accepted:
            if event.message not in have:
                text = f"{event.message} of host {event.host} is not in the log of host {host}"
                yield Violation("lost", event.time, text)
        if set(logs[reported[0]]) == have and logs[host] != logs[reported[0]]:
            text = f"the logs of hosts {reported[0]} and {host} have different orders"
            yield Violation("order", end, text)
