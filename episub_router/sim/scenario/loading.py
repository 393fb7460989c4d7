"""Scenario files: finding, reading and changing them."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from episub_router.sim.routers.params import GossipsubParams
from episub_router.sim.routers.settings import GossipsubConfig
from episub_router.sim.scenario.settings import Scenario, Variant
from episub_router.sim.strict import ScenarioError, read

_PACKAGE = "episub_router.sim.scenarios"


@dataclass(frozen=True, slots=True)
class ScenarioFile:
    """A scenario as it is written: a table, and the variants that it is to be run in."""

    table: dict[str, Any]
    variants: tuple[Variant, ...]

    @property
    def name(self) -> str:
        return str(self.table["name"])

    @property
    def about(self) -> str:
        return str(self.table.get("about", ""))

    def scenarios(
        self, settings: Mapping[str, Any] | None = None, only: Sequence[str] = ("",)
    ) -> dict[str, Scenario]:
        """What `tables` returns, each as a scenario. Raises ScenarioError."""
        return {name: build(table) for name, table in self.tables(settings, only).items()}

    def tables(
        self, settings: Mapping[str, Any] | None = None, only: Sequence[str] = ("",)
    ) -> dict[str, dict[str, Any]]:
        """The table of each variant whose name contains one of `only`, by the variant's name
        ("" where there are none).

        `settings` are dotted keys with values; they win over the file's and the variant's.
        Raises ScenarioError.
        """
        made = {}
        for variant in self.variants or (Variant(name=""),):
            if not any(text in variant.name for text in only):
                continue
            table = copy.deepcopy(self.table)
            for key, value in {**variant.set, **(settings or {})}.items():
                _put(table, key, value)
            made[variant.name] = table
        return made


def names() -> list[str]:
    """The scenarios that ship with the package."""
    files = resources.files(_PACKAGE).iterdir()
    return sorted(file.name[: -len(".toml")] for file in files if file.name.endswith(".toml"))


def load(name: str) -> ScenarioFile:
    """Read a scenario that ships with the package, or the file at the path `name`.

    Raises ScenarioError where there is none or it can't be run.
    """
    if name.endswith(".toml"):
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ScenarioError(f"can't read {name}: {error}") from error
    elif name in names():
        text = (resources.files(_PACKAGE) / f"{name}.toml").read_text(encoding="utf-8")
    else:
        raise ScenarioError(
            f"no scenario {name!r}; there are {', '.join(names())}, or give a .toml file"
        )
    return parse(text)


def parse(text: str) -> ScenarioFile:
    """Read a scenario from TOML; every variant of it is checked. Raises ScenarioError."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"not TOML: {error}") from error
    variants = table.pop("variants", [])
    if not isinstance(variants, list):
        raise ScenarioError(f"variants must be a list of tables, not {variants!r}")
    read_variants = tuple(
        read(Variant, variant, f"variants[{i}]") for i, variant in enumerate(variants)
    )
    file = ScenarioFile(table, read_variants)
    file.scenarios()
    return file


def build(table: Mapping[str, Any]) -> Scenario:
    """A scenario from its table. Raises ScenarioError."""
    scenario = read(Scenario, table, "")
    if isinstance(scenario.router, GossipsubConfig):
        read(GossipsubParams, scenario.router.merged(), "router.params")
    return scenario


def dumps(table: Mapping[str, Any]) -> str:
    """`table` as TOML, a line for each key."""
    return "".join(f"{key} = {_inline(value)}\n" for key, value in table.items())


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_inline(of)}" for key, of in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)


def _put(table: dict[str, Any], key: str, value: object) -> None:
    """Set the dotted `key`; numbers in it are positions in a list."""
    parts = key.split(".")
    place: Any = table
    for depth, part in enumerate(parts):
        at: Any = part
        if isinstance(place, list):
            if not part.isdigit() or int(part) >= len(place):
                raise ScenarioError(
                    f"{key}: {part!r}; must be a position from 0 to {len(place) - 1}"
                )
            at = int(part)
        elif not isinstance(place, dict):
            raise ScenarioError(f"{key}: {'.'.join(parts[:depth])} is not a table")
        if depth < len(parts) - 1:
            place = place[at] if isinstance(place, list) else place.setdefault(at, {})
            continue
        if part == "kind" and isinstance(place, dict) and place.get("kind") != value:
            # Another kind has other keys.
            place.clear()
        place[at] = value


def parse_settings(assignments: list[str]) -> dict[str, Any]:
    """`key=value` assignments, values as in TOML; bare words are text. Raises ScenarioError."""
    settings = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise ScenarioError(f"{assignment!r}: must be key=value")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        settings[key.strip()] = value
    return settings
