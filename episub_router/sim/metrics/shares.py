"""What each host sent, against its share, where hosts' uplinks differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np


def figures(
    sent: Mapping[int, int], rates: Mapping[int, float], size: int, sources: Collection[int]
) -> dict[str, Any]:
    """How many times its share each host sent: the most of all hosts, of those that published
    nothing, and the 99th percentile; and the uplink of the host with the most of the latter.

    `sent` are bytes of all kinds by host, `rates` uplinks, `size` the bytes of all messages in the
    time. A host's share is the part of all that was sent that its uplink has of all uplinks, and
    one copy of each message at least. In proportion alone a host with 10 Mbit/s among others with
    1,000 might send a hundredth of what it receives: one that gives on what it got once is no
    burden to complain of, and a source has to send each message once.
    """
    total, capacity = sum(sent.values()), sum(rates[host] for host in sent)
    ratios = {
        host: count / max(size, total * rates[host] / capacity) for host, count in sent.items()
    }
    relays = {host: ratio for host, ratio in ratios.items() if host not in sources}
    most = max(relays, key=relays.__getitem__, default=None)
    return {
        "max": max(ratios.values(), default=0.0),
        "p99": float(np.quantile(list(ratios.values()), 0.99, method="inverted_cdf")),
        "max_of_relays": 0.0 if most is None else relays[most],
        "uplink_of_max_relay": 0.0 if most is None else rates[most],
    }
