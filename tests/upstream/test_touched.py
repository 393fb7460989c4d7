"""What we override or call of py-libp2p's private parts is there, and docs/upstream.md lists it."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libp2p
import pytest
from libp2p import new_host
from libp2p.pubsub.floodsub import PROTOCOL_ID, FloodSub
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pubsub import Pubsub

import episub_router
from episub_router.fallback.contained import ContainedGossipSub
from episub_router.pubsub import ResilientPubsub
from episub_router.upstream import HOOKS
from tests import children
from tests.docs.snippets import ROOT
from tests.hosts import bounded_gossipsub

LISTED = re.findall(r"^\| `(\w+)` \| `(_\w+)` \|", (ROOT / "docs/upstream.md").read_text(), re.M)


@pytest.mark.parametrize(("owner", "name"), LISTED)
def test_what_we_touch_is_in_the_installed_version(owner: str, name: str) -> None:
    host = new_host()
    made = {
        "GossipSub": bounded_gossipsub(),
        "Pubsub": Pubsub(host, FloodSub([PROTOCOL_ID])),
        "Swarm": host.get_network(),
    }
    assert hasattr(made[owner], name), (
        f"this libp2p has no {owner}.{name}: see docs/upstream.md for what needs it"
    )


def test_what_is_checked_at_import_is_listed() -> None:
    checked = {
        (where.partition(":")[2], name) for where, hooks in HOOKS.items() for name in hooks.values()
    }
    # Objects have these, and not their classes.
    ours = {
        ("GossipSub", "_pending_control"),
        ("Pubsub", "_peer_subscription_count"),
        ("Swarm", "_inbound_limiter"),
    }
    assert set(LISTED) - checked == ours
    assert checked <= set(LISTED)


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (
            "import libp2p.pubsub.pubsub as p; del p.Pubsub._handle_dead_peer",
            "has neither lose_peer_stream nor _handle_dead_peer",
        ),
        ("import libp2p.pubsub.gossipsub as g; del g.PROTOCOL_ID_V20", "PROTOCOL_ID_V20"),
    ],
)
@pytest.mark.slow
def test_a_py_libp2p_that_lacks_something_is_one_line(spoil: str, named: str) -> None:
    code = f"{spoil}\ntry:\n import episub_router; episub_router.EpisubRouter\n"
    code += "except ImportError as error: print(error)"
    ran = children.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    [line] = ran.stdout.splitlines()
    assert line.startswith("py-libp2p 0.8.1 is not what episub-router runs with (pip install")
    assert named in line


@pytest.mark.parametrize(
    ("ours", "theirs"), [(ResilientPubsub, Pubsub), (ContainedGossipSub, GossipSub)]
)
def test_overrides_of_private_methods_are_listed_and_take_the_same_arguments(
    ours: type[Any], theirs: type[Any]
) -> None:
    mine = [c for c in ours.__mro__ if c.__module__.startswith("episub_router.")]
    for name in {name for c in mine for name in vars(c) if name.startswith("_")}:
        if name.startswith(("__", "_abc")) or not hasattr(theirs, name):
            continue
        assert (theirs.__name__, name) in LISTED
        taken, given = (inspect.signature(getattr(c, name)).parameters for c in (ours, theirs))
        assert list(taken) == list(given), f"{theirs.__name__}.{name} has other arguments now"


def calls_of_super() -> Iterator[str]:
    """Private methods that our subclasses of py-libp2p's classes call with `super()`."""
    for path in Path(episub_router.__file__).parent.rglob("*.py"):
        source = path.read_text()
        if not re.search(r"^from libp2p", source, re.M):
            continue
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Call)
                and isinstance(node.value.func, ast.Name)
                and node.value.func.id == "super"
                and node.attr.startswith("_")
                and not node.attr.startswith("__")
            ):
                yield node.attr


def private_names(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """Private names, and whether they are given a meaning there or used."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name, True
    elif isinstance(node, ast.AnnAssign | ast.Assign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for part in ast.walk(target):
                if isinstance(part, ast.Attribute | ast.Name):
                    yield (part.attr if isinstance(part, ast.Attribute) else part.id), True
    elif isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr):
        yield node.attr, False


def test_what_is_used_and_nothing_here_defines_is_listed() -> None:
    defined, used = set(), set()
    for path in Path(episub_router.__file__).parent.rglob("*.py"):
        source = path.read_text()
        touches = re.search("^ *(from|import) libp2p", source, re.M)
        for node in ast.walk(ast.parse(source)):
            for name, is_defined in private_names(node):
                if is_defined:
                    defined.add(name)
                elif touches:
                    used.add(name)
    theirs = Path(libp2p.__file__).parent
    text = "".join(path.read_text() for path in theirs.rglob("*.py"))
    found = {name for name in used - defined if re.search(rf"\b{name}\b", text)}
    assert "_pending_control" in found
    assert found <= {name for _, name in LISTED}


def test_what_is_called_with_super_is_listed() -> None:
    assert set(calls_of_super()) <= {name for _, name in LISTED}
