"""The kinds of peers: how each is started, and what it needs to be there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

INTEROP = Path(__file__).parents[1]
ROOT = INTEROP.parent


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of peer.

    `speaks` are the gossipsub versions that the peer has, newest first; `selectable` those of them
    that it can speak alone. `built` is what `make interop-peers` makes out of the lock file,
    with `tool`.
    """

    name: str
    command: Sequence[str]
    tool: str
    built: Path
    speaks: Sequence[str] = ()
    selectable: Sequence[str] = ()
    flags: Sequence[str] = ()
    forked: bool = False
    """Whether a fork server starts it, in place of `command`."""

    def only(self, version: str) -> list[str]:
        """The flag that makes the peer speak one version; none if it has no such choice."""
        return [f"--protocol=/meshsub/{version}"] if version in self.selectable else []

    def problem(self) -> str | None:
        """Why the peer can't run here; None if it can."""
        if shutil.which(self.tool) is None:
            return f"{self.tool} is not installed, so the {self.name} peer can't be built"
        if not self.built.exists():
            return f"the {self.name} peer is not built: run `make interop-peers`"
        return None

    def environment(self) -> dict[str, str]:
        """The variables of a peer's process."""
        return os.environ | {"PYTHONPATH": str(ROOT), "NODE_NO_WARNINGS": "1"}


_PYTHON_PEER = INTEROP / "py" / "peer.py"
_PYTHON = [sys.executable, str(_PYTHON_PEER)]
_JS = INTEROP / "js" / "gossipsub"
_RUST_PEER = INTEROP / "rust" / "target" / "release" / "episub-interop-peer"
_GO_PEER = INTEROP / "go" / "bin" / "gossipsub"
_LEAF = INTEROP / "go" / "bin" / "leaf"
_GO_EPISUB = INTEROP / "go" / "bin" / "episub"

_V10, _V11, _V12, _V13 = "1.0.0", "1.1.0", "1.2.0", "1.3.0"

KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "episub",
            _PYTHON,
            sys.executable,
            _PYTHON_PEER,
            flags=["--router=episub"],
            forked=True,
        ),
        Kind(
            "py",
            _PYTHON,
            sys.executable,
            _PYTHON_PEER,
            speaks=[_V13, _V12, _V11, _V10],
            selectable=[_V13, _V12, _V11, _V10],
            forked=True,
        ),
        Kind(
            "js",
            ["node", str(_JS / "peer.mjs")],
            "node",
            _JS / "node_modules" / ".package-lock.json",
            speaks=[_V12, _V11, _V10],
            selectable=[_V12, _V11, _V10],
        ),
        Kind(
            "rust",
            [str(_RUST_PEER)],
            "cargo",
            _RUST_PEER,
            speaks=[_V13, _V12, _V11, _V10],
            selectable=[_V11, _V10],
        ),
        Kind(
            "go",
            [str(_GO_PEER)],
            "go",
            _GO_PEER,
            speaks=[_V13, _V12, _V11, _V10],
            selectable=[_V13, _V12, _V11, _V10],
        ),
        Kind("leaf", [str(_LEAF)], "go", _LEAF),
        Kind("episub-go", [str(_GO_EPISUB)], "go", _GO_EPISUB),
    )
}
