"""`episub why`: the way that one message took to one peer.

Exit status: 0 it came, 1 it didn't or that isn't known, 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from episub_router.cli import pipeline

if TYPE_CHECKING:
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.why import DeliveryPath


def add_parser(subparsers: Any) -> None:
    """Add the command `why` to the subparsers of the main one."""
    parser = subparsers.add_parser("why", help="the way that one message took to one peer")
    parser.add_argument("run_name", metavar="RUN", help="a run in the lake, with answers")
    parser.add_argument("message", metavar="MESSAGE", help="the message's id")
    parser.add_argument("peer", metavar="PEER", help="the peer, or how its id ends")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    pipeline.add_common(parser, _why, looks=lambda given: True)


def _why(arguments: argparse.Namespace, lake: Lake) -> int:
    from dataclasses import asdict

    from episub_router.pipeline.why import way

    found = way(lake, arguments.run_name, arguments.message, arguments.peer)
    if arguments.json:
        print(json.dumps(asdict(found), indent=1))
    else:
        print("\n".join(lines(found)))
    return 1 if found.why_not else 0


def lines(found: DeliveryPath) -> list[str]:
    """What is known of the way, for people."""
    text = [f"message {found.message} at {found.peer}, from {found.source}"]
    text += _cause(found.cause)
    if found.inferred:
        text.append("  its publishing isn't traced: times are since its first delivery")
    if found.why_not:
        text.append(f"  it did not come: {found.why_not}")
    elif not found.steps:
        text.append(
            "  published here" if found.peer == found.source else "  no trace says from which peer"
        )
    for step in found.steps:
        text.append(f"  {step['sender']} -> {step['receiver']}")
        text.append(f"    had it at {_ms(step['had'])}, sent it at {_ms(step['sent'])}: waited "
                    f"{_ms(step['waited'])}")  # fmt: skip
        text.append(f"    delivered at {_ms(step['delivered'])}: under way "
                    f"{_ms(step['under_way'])}{_within(step['uncertainty'])}")  # fmt: skip
    if found.latency is not None and found.steps:
        text.append(f"  latency {_ms(found.latency)}{_within(found.uncertainty)}")
    elif found.steps:
        text.append("  its latency is unknown: a clock was set during the run")
    text += [
        f"  {copy['fate']} copy of {copy['sender']} at {_ms(copy['time'])}" for copy in found.copies
    ]
    return text


def _cause(cause: Mapping[str, Any] | None) -> list[str]:
    if cause is None:
        return []
    text = [f"  cause: {cause['name']}" + (f" ({cause['detail']})" if cause["detail"] else "")]
    if cause["sender"] or cause["receiver"]:
        text.append(f"    on the link {cause['sender'] or '?'} -> {cause['receiver'] or '?'}")
    if cause["begin"] is not None:
        end = "the end of the run" if cause["end"] is None else _ms(cause["end"])
        text.append(f"    from {_ms(cause['begin'])} to {end}: {', '.join(cause['peers'])}")
    return text


def _ms(nanoseconds: int | None) -> str:
    return "?" if nanoseconds is None else f"{nanoseconds / 1e6:,.3f} ms"


def _within(uncertainty: int | None) -> str:
    return " (clocks not compared)" if uncertainty is None else f" ± {_ms(uncertainty)}"
