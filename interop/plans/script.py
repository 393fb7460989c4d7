"""A node's script, as `params.json` has it (test-plans' script_instruction.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SECOND = 1e9
"""Go's durations are nanoseconds."""


@dataclass(frozen=True, slots=True)
class GossipParams:
    """What both routers can take of go-libp2p-pubsub's GossipSubParams; its defaults."""

    degree: int = 6
    degree_low: int = 5
    degree_high: int = 12
    gossip_window: int = 3
    gossip_history: int = 5
    heartbeat_initial_delay: float = 0.1
    """Seconds, as the rest."""
    heartbeat_interval: float = 1.0
    fanout_ttl: float = 60.0
    prune_backoff: float = 60.0
    unsubscribe_backoff: float = 10.0


@dataclass(frozen=True, slots=True)
class InitGossipSub:
    params: GossipParams


@dataclass(frozen=True, slots=True)
class Connect:
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IfNodeIdEquals:
    node: int
    instruction: Instruction


@dataclass(frozen=True, slots=True)
class WaitUntil:
    elapsed: float
    """Seconds since the start of the process."""


@dataclass(frozen=True, slots=True)
class Publish:
    message: int
    size: int
    """Bytes; at least 8."""
    topic: str


@dataclass(frozen=True, slots=True)
class Subscribe:
    topic: str


@dataclass(frozen=True, slots=True)
class ValidationDelay:
    topic: str
    seconds: float


Instruction = (
    InitGossipSub | Connect | IfNodeIdEquals | WaitUntil | Publish | Subscribe | ValidationDelay
)

_NAMES = {
    "D": "degree",
    "Dlo": "degree_low",
    "Dhi": "degree_high",
    "HistoryGossip": "gossip_window",
    "HistoryLength": "gossip_history",
}
_DURATIONS = {
    "HeartbeatInitialDelay": "heartbeat_initial_delay",
    "HeartbeatInterval": "heartbeat_interval",
    "FanoutTTL": "fanout_ttl",
    "PruneBackoff": "prune_backoff",
    "UnsubscribeBackoff": "unsubscribe_backoff",
}


def load(path: Path) -> list[Instruction]:
    """The script in `params.json`. Raises OSError, and ValueError for what can't be run."""
    try:
        return [parse(entry) for entry in json.loads(path.read_text())["script"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: {error!r}") from error


def parse(entry: Mapping[str, Any]) -> Instruction:
    """One instruction. Raises ValueError for one that we don't have, KeyError for what lacks."""
    match entry["type"]:
        case "initGossipSub":
            return InitGossipSub(_params(entry["gossipSubParams"]))
        case "connect":
            return Connect(tuple(entry["connectTo"]))
        case "ifNodeIDEquals":
            return IfNodeIdEquals(entry["nodeID"], parse(entry["instruction"]))
        case "waitUntil":
            return WaitUntil(entry["elapsedSeconds"])
        case "publish":
            if entry["messageSizeBytes"] < 8:
                raise ValueError("a message has at least the 8 bytes of its id")
            return Publish(entry["messageID"], entry["messageSizeBytes"], entry["topicID"])
        case "subscribeToTopic":
            if entry.get("partial"):
                raise ValueError("partial messages are not implemented")
            return Subscribe(entry["topicID"])
        case "setTopicValidationDelay":
            return ValidationDelay(entry["topicID"], entry["delaySeconds"])
        case other:
            raise ValueError(f"the instruction {other!r} is not implemented")


def _params(entry: Mapping[str, Any]) -> GossipParams:
    """What isn't given, or is null, keeps its default; what we don't have is passed over."""
    given = {key: value for key, value in entry.items() if value is not None}
    found = {_NAMES[key]: value for key, value in given.items() if key in _NAMES}
    for key, name in _DURATIONS.items():
        if key in given:
            found[name] = given[key] / _SECOND
    return GossipParams(**found)


def as_json(script: Sequence[Instruction]) -> str:
    """The text of a `params.json`."""
    return json.dumps({"script": [_entry(instruction) for instruction in script]})


def _entry(instruction: Instruction) -> dict[str, Any]:
    match instruction:
        case InitGossipSub(params):
            entry: dict[str, Any] = {key: getattr(params, name) for key, name in _NAMES.items()}
            for key, name in _DURATIONS.items():
                entry[key] = round(getattr(params, name) * _SECOND)
            return {"type": "initGossipSub", "gossipSubParams": entry}
        case Connect(nodes):
            return {"type": "connect", "connectTo": list(nodes)}
        case IfNodeIdEquals(node, inner):
            return {"type": "ifNodeIDEquals", "nodeID": node, "instruction": _entry(inner)}
        case WaitUntil(elapsed):
            # Other implementations take whole numbers only.
            whole = int(elapsed) if elapsed == int(elapsed) else elapsed
            return {"type": "waitUntil", "elapsedSeconds": whole}
        case Publish(message, size, topic):
            return {
                "type": "publish",
                "messageID": message,
                "messageSizeBytes": size,
                "topicID": topic,
            }
        case Subscribe(topic):
            return {"type": "subscribeToTopic", "topicID": topic}
        case ValidationDelay(topic, seconds):
            return {"type": "setTopicValidationDelay", "topicID": topic, "delaySeconds": seconds}
