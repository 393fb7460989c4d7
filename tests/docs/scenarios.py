"""Tables for simulator, Shadow and testbed: scenarios that ship, settings, attacks, faults."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_args

from episub_router.sim.adversaries.settings import AnyAttack, Attack
from episub_router.sim.scenario import loading
from episub_router.sim.scenario.traffic import TrafficConfig
from interop.shadow.scenario import Nodes
from interop.testbed.faults import DEFAULT_AMOUNT, FaultKind
from tests.docs import marked
from tests.docs.counters import meanings
from tests.docs.docstrings import line
from tests.docs.parameters import sentences
from tests.docs.snippets import ROOT

SETTINGS: dict[str, type[Any]] = {"adversaries": Attack, "shadow": Nodes, "traffic": TrafficConfig}


def _simulated() -> dict[str, str]:
    """All that ship but the published runs, which differ in numbers alone."""
    names = [name for name in loading.names() if not name.startswith("simsub-")]
    return {name: loading.load(name).about for name in names}


def _of_shadow() -> dict[str, str]:
    files = sorted((ROOT / "interop" / "shadow" / "scenarios").glob("*.toml"))
    return {file.stem: tomllib.loads(file.read_text("utf-8"))["about"] for file in files}


SCENARIOS: dict[str, Callable[[], dict[str, str]]] = {"all": _simulated, "shadow": _of_shadow}


def scenarios(of: str) -> str:
    """The scenarios that ship, by name."""
    rows = [(f"`{name}`", about) for name, about in SCENARIOS[of]().items()]
    return marked.table(("scenario", "what it shows"), rows)


def settings(name: str) -> str:
    """The fields of a table of a scenario's file, as far as they need a word."""
    assert is_dataclass(SETTINGS[name])
    defaults = {field.name: field.default for field in fields(SETTINGS[name])}
    does = sentences(SETTINGS[name])
    rows = [(f"`{key}`", _shown(defaults[key]), does[key]) for key in defaults if key in does]
    return marked.table(("key", "default", "meaning"), rows)


def attacks(_: str) -> str:
    """What each kind of adversary does."""
    rows = [(f"`{each.kind}`", line(each.__doc__)) for each in get_args(AnyAttack)]
    return marked.table(("kind", "what it does"), rows)


def faults(_: str) -> str:
    """What the testbed does to hosts."""
    amounts = {kind.value: f"{amount:g}" for kind, amount in DEFAULT_AMOUNT.items()}
    done = meanings(FaultKind).items()
    rows = [(f"`{kind}`", text, amounts.get(kind, "")) for kind, text in done]
    return marked.table(("kind", "what is done", "default `amount`"), rows)


def _shown(default: object) -> str:
    if isinstance(default, tuple):
        return f"[{', '.join(map(_shown, default))}]"
    return f'"{default}"' if isinstance(default, str) else str(default).lower()
