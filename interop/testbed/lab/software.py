"""What runs on a host: how it is started, what it is asked, and what its lines report."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.keys import KeyPair
from libp2p.peer.id import ID

from interop.harness.kinds import KINDS as PEERS

TOPIC = "testbed"
_ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Said:
    """One line of a process, as far as it matters: one of the fields is set, or two."""

    listening: bool = False
    published: str | None = None
    after: int = 0
    """Of what was published: how many deliveries the application had seen before."""
    delivered: str | None = None
    missing: tuple[str, ...] = ()
    joined: str | None = None
    """A peer that became a neighbour."""
    parted: str | None = None
    """A peer that ceased to be one."""
    reason: str = ""
    """Why it did."""
    neighbors: tuple[str, ...] | None = None
    """All of them."""
    log: tuple[str, ...] | None = None
    failed: str | None = None
    """Why a message was not published."""
    refused: str = ""
    """That message, if the process says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a process runs."""

    host: int
    listen: str
    """A multiaddr."""
    peers: Sequence[str]
    """Full addresses of the hosts to join through."""
    home: Path
    """A directory that outlives the process."""
    trace: bool


@dataclass(slots=True)
class Messages:
    """Messages by what nodes that print no payload say of them."""

    digests: dict[str, str] = field(default_factory=dict)

    def payload(self, message: str, size: int) -> bytes:
        """The bytes that carry `message`: a line, of `size` bytes if there is room."""
        data = f"{message} ".encode().ljust(size, b".")
        self.digests[hashlib.sha256(data).hexdigest()] = message
        return data


def key_pair(host: int) -> KeyPair:
    """The identity of a host: the same in each run."""
    return create_new_key_pair(hashlib.sha256(_key_seed(host).encode()).digest())


def peer_id(host: int) -> str:
    """The peer id of a host."""
    return str(ID.from_pubkey(key_pair(host).public_key))


class EpisubNode:
    """`episub node`, as an operator runs it; or a channel over it."""

    def __init__(self, *, sds: bool) -> None:
        self._sds = sds

    def command(self, place: Place) -> list[str]:
        key = place.home / "key"
        if not key.exists():
            key.write_bytes(base64.b64encode(key_pair(place.host).private_key.serialize()))
            key.chmod(0o600)
        program = (
            ["-m", "interop.testbed.nodes.sds", "--db", str(place.home / "room.db")]
            if self._sds
            else ["-m", "episub_router", "node", "--stay", "--json"]
        )
        command = [sys.executable, *program, "--topic", TOPIC, "--key", str(key)]
        command += ["--listen", place.listen]
        if place.peers:
            command += ["--bootstrap", *place.peers]
        if place.trace and not self._sds:
            command += ["--trace", str(place.home / "trace.pb")]
        return command

    def environment(self) -> Mapping[str, str]:
        return {"PYTHONPATH": str(_ROOT)}

    def publish(self, data: bytes) -> bytes:
        return data + b"\n"

    def dial(self, address: str) -> bytes | None:
        """The router redials by itself."""
        return None

    def tell_log(self) -> bytes | None:
        return b"/log\n" if self._sds else None

    def understand(self, line: bytes, messages: Messages) -> Said | None:
        event = json.loads(line)
        name = event["event"]
        if name == "listening":
            return Said(listening=True)
        if name == "published":
            return Said(published=_message(event), after=int(event.get("after", 0)))
        if name == "delivered":
            return Said(delivered=_message(event), missing=tuple(event.get("missing", ())))
        if name == "peer-up":
            return Said(joined=event["peer"])
        if name == "peer-down":
            return Said(parted=event["peer"], reason=event.get("reason", ""))
        if name == "failed":
            return Said(failed=event["error"], refused=_message(event))
        if name == "log":
            return Said(log=tuple(_first_word(text) for text in event["texts"]))
        return None


class InteropPeer:
    """One of the peers of interop/README.md."""

    def __init__(self, kind: str) -> None:
        self._kind = PEERS[kind]
        self._can_trace = kind in ("go", "py", "episub")

    def command(self, place: Place) -> list[str]:
        command = [
            *self._kind.command,
            f"--listen={place.listen}",
            f"--topic={TOPIC}",
            f"--key-seed={_key_seed(place.host)}",
            *(f"--dial={address}" for address in place.peers),
        ]
        if place.trace and self._can_trace:
            command.append(f"--trace={place.home / 'trace.pb'}")
        return command

    def environment(self) -> Mapping[str, str]:
        return self._kind.environment()

    def publish(self, data: bytes) -> bytes:
        return _command("publish", topic=TOPIC, data=base64.b64encode(data).decode())

    def dial(self, address: str) -> bytes | None:
        """Gossipsub doesn't dial again, so the testbed does."""
        return _command("dial", addr=address)

    def tell_log(self) -> bytes | None:
        return None

    def understand(self, line: bytes, messages: Messages) -> Said | None:
        event = json.loads(line)
        name = event["event"]
        if name == "listening":
            return Said(listening=True)
        if name in ("published", "delivery"):
            message = messages.digests.get(event["sha256"], f"unknown:{event['sha256']}")
            if name == "published":
                return Said(published=message)
            return Said(delivered=message)
        if name == "mesh" and event["topic"] == TOPIC:
            return Said(neighbors=tuple(event["peers"]))
        if name == "failed" and event["op"] == "publish":
            return Said(failed=event["error"])
        return None


Software = EpisubNode | InteropPeer


def software(kind: str) -> Software:
    """What runs as `kind`, one of `scenario.KINDS`."""
    if kind in ("episub", "sds"):
        return EpisubNode(sds=kind == "sds")
    return InteropPeer("episub" if kind == "episub-peer" else kind)


def finds_others(kind: str) -> bool:
    """Whether nodes of `kind` find each other through a few contacts."""
    return kind in ("episub", "sds", "episub-peer")


def problem(kind: str) -> str | None:
    """Why `kind` can't run here; None if it can."""
    return PEERS[kind].problem() if kind in PEERS else None


def _key_seed(host: int) -> str:
    return f"testbed-{host}"


def _command(op: str, **fields: Any) -> bytes:
    return json.dumps({"op": op, **fields}).encode() + b"\n"


def _message(event: Mapping[str, Any]) -> str:
    return _first_word(event.get("text", event.get("base64", "")))


def _first_word(text: str) -> str:
    # Each message is named by many deliveries.
    return sys.intern(text.split(" ", 1)[0])
