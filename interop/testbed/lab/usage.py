"""What a process holds, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a process holds now."""

    memory: int
    """Bytes that are resident."""
    space: int
    """Bytes of address space."""
    descriptors: int
    threads: int
    cpu: float
    """Seconds since it started."""


def read_usage(pid: int) -> Reading | None:
    """What process `pid` holds; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            # The name may hold anything, up to the last bracket.
            fields = file.read().rpartition(")")[2].split()
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    # proc(5), counted from the state, which is field 3.
    user, system, threads = int(fields[11]), int(fields[12]), int(fields[17])
    space, resident = int(fields[20]), int(fields[21]) * _PAGE
    return Reading(resident, space, descriptors, threads, (user + system) / _TICK)
