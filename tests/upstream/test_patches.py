"""The patches of docs/upstream apply to the installed py-libp2p, and what they bring is used."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from subprocess import PIPE

import libp2p
import pytest

from episub_router.upstream import HOOKS
from tests import children
from tests.docs.snippets import ROOT
from tests.hosts import PATIENCE

pytestmark = [pytest.mark.hosts, pytest.mark.skipif(not shutil.which("git"), reason="no git here")]

PATCHES = sorted((ROOT / "docs" / "upstream").glob("*.patch"))
FASTER = sorted((ROOT / "docs" / "upstream" / "faster").glob("*.patch"))
NAMED = {
    hook: (where, private) for where, hooks in HOOKS.items() for hook, private in hooks.items()
} | {"owes_control": ("libp2p.pubsub.gossipsub:GossipSub", "_pending_control")}


_FILE = re.compile(r"^\+\+\+ b/libp2p/(\w+)/", re.M)


def hook_of(patch: Path) -> str:
    return patch.stem.replace("-", "_")


def patched(directory: Path, *patches: Path) -> Path:
    """A copy of the installed package with `patches`, for PYTHONPATH."""
    installed = Path(libp2p.__file__).parent
    copy = directory / "libp2p"
    copy.mkdir()
    files = [name for patch in patches for name in _FILE.findall(patch.read_text())]
    for entry in installed.iterdir():
        if entry.name in files:
            shutil.copytree(entry, copy / entry.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif entry.name != "__pycache__":
            (copy / entry.name).symlink_to(entry)
    for patch in patches:
        children.run(["git", "apply", str(patch)], cwd=directory, check=True)
    return directory


MENDED = {"inbound_slots"}
"""What needs no call of ours with the patch."""


def test_there_is_a_patch_for_each_hook() -> None:
    assert {hook_of(patch) for patch in PATCHES} == {*NAMED, *MENDED}


_CHECK = """
import sys
from importlib import import_module
from episub_router.fallback.sending import MessageSender
from episub_router.pubsub import ResilientPubsub

for named in sys.argv[1:]:
    hook, private, module, owner = named.split(":")
    theirs = getattr(import_module(module), owner)
    ours = dict(GossipSub=MessageSender, Pubsub=ResilientPubsub).get(owner, theirs)
    assert hook in vars(theirs), named
    assert not [c for c in ours.__mro__ if private in vars(c) and c is not theirs], named
"""


def test_each_hook_takes_the_place_of_its_private_name(tmp_path: Path) -> None:
    """Each patch applies by itself, too."""
    for patch in PATCHES:
        (alone := tmp_path / patch.stem).mkdir()
        patched(alone, patch)
    (together := tmp_path / "together").mkdir()
    named = [f"{hook}:{private}:{where}" for hook, (where, private) in NAMED.items()]
    run([sys.executable, "-c", _CHECK, *named], patched(together, *PATCHES))


def test_streams_and_messages_with_all_hooks(tmp_path: Path) -> None:
    """What py-libp2p would be without its private names that we touch."""
    there = patched(tmp_path, *PATCHES)
    for where in HOOKS:
        path = there / (where.partition(":")[0].replace(".", "/") + ".py")
        text = path.read_text()
        for _, private in NAMED.values():
            text = re.sub(rf"\b{private}\b", f"{private}_renamed", text)
        path.write_text(text)
    tests = [
        "tests/pubsub/test_lost_streams.py",
        "tests/fallback/test_neighbourly.py",
        "tests/net/test_closing.py",
        "tests/net/test_dialer.py",
    ]
    run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *tests], there)


def test_a_megabyte_takes_fewer_reads_and_window_updates_with_all_that_are_faster(
    tmp_path: Path,
) -> None:
    counts = []
    for number, patches in enumerate(([], FASTER)):
        (there := tmp_path / str(number)).mkdir()
        done = run([sys.executable, "-m", "tests.upstream.transfer"], patched(there, *patches))
        counts.append([int(count) for count in done.split()])
    (reads, updates), (fewer_reads, fewer_updates) = counts
    assert updates >= 30
    assert fewer_updates <= 8
    assert fewer_reads < 0.7 * reads


def run(command: list[str], libp2p_in: Path) -> str:
    path = f"{libp2p_in}:{ROOT}"
    done = children.run(
        ["env", f"PYTHONPATH={path}", *command],
        cwd=ROOT,
        stdout=PIPE,
        stderr=PIPE,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return bytes(done.stdout).decode()
