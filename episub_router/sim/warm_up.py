"""Overlays that have joined, kept in files: what runs that differ in what follows can start from.

A warm-up ends before the first message, fault or phase. What it leaves depends on the network,
the joins, the seed, and the router without its broadcast parameters; `key` names all of that. A
run that starts from a kept one gives the same bytes as one that warms up itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
from collections.abc import Callable
from dataclasses import asdict
from enum import Enum
from functools import cache
from importlib import resources
from pathlib import Path
from types import BuiltinMethodType, MethodType
from typing import Any

from episub_router.sim.routers.node import Node
from episub_router.sim.routers.settings import EpisubConfig
from episub_router.sim.scenario.settings import Scenario
from episub_router.sim.simulation import Simulation

_KEPT = {
    "loop": ("now", "performed", "_buckets", "_indices", "_open", "_open_index"),
    "network": ("_draws", "_uplinks", "_downlink_free"),
    "records": ("sessions", "traffic", "drops", "lost_on_the_way"),
    "simulation": ("_contact_rng", "_lives"),
}
"""What a warm-up has changed, beside the nodes."""
_OWN = ("episub_router.protocol.", "episub_router.sim.", "episub_router.util.")


class WarmUpError(ValueError):
    """A file that isn't the overlay that a run needs, and why."""


def key(scenario: Scenario, seed: int) -> str:
    """What a warm-up follows from, as JSON: equal for runs that may share one."""
    network = asdict(scenario.network)
    # Only noticed once something fails.
    del network["crash_notice"]
    router: dict[str, Any] = {"kind": scenario.router.kind}
    if isinstance(scenario.router, EpisubConfig):
        broadcast = scenario.router.params.broadcast
        router["membership"] = asdict(scenario.router.params.membership)
        # What sends in pieces is allocated at once.
        allocated = ("source_trees", "piece_threshold")
        settings = asdict(broadcast)
        if not broadcast.piece_threshold:
            settings = {name: settings[name] for name in allocated}
        router["broadcast"] = settings
    else:
        router["settings"] = asdict(scenario.router)
    parts = {
        "seed": seed,
        "network": network,
        "latency": {"kind": scenario.latency.kind, **asdict(scenario.latency)},
        "join": asdict(scenario.join),
        "router": router,
        "code": _code(),
    }
    return json.dumps(parts, sort_keys=True, default=str)


@cache
def _code() -> str:
    """A digest of the code that a warm-up depends on: other code may warm up differently."""
    digest = hashlib.sha256()
    package = resources.files("episub_router")
    for folder in ("protocol", "sim"):
        with resources.as_file(package / folder) as path:
            for file in sorted(path.rglob("*.py")):
                digest.update(file.read_bytes())
    return digest.hexdigest()


def save(simulation: Simulation, path: Path) -> None:
    """Keep the overlay of `simulation`, whose warm-up has ended, in the file `path`."""
    header = {"until": simulation.loop.now, "key": key(simulation.scenario, simulation.seed)}
    nodes = [*simulation.network.nodes.values()]
    # Another command may write the same one into a folder that both keep.
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with partial.open("wb") as file:
        file.write(json.dumps(header).encode() + b"\n")
        writer = _Writer(file, simulation, nodes)
        writer.dump([type(node) for node in nodes])
        writer.dump([_attributes(node) for node in nodes])
        kept = {owner: _of(simulation, owner) for owner in _KEPT}
        writer.dump({of: {n: getattr(it, n) for n in _KEPT[of]} for of, it in kept.items()})
    partial.replace(path)


def fits(path: Path, scenario: Scenario, seed: int) -> bool:
    """Whether the overlay in `path` is the one that this run warms up to."""
    header = _header(path)
    return bool(header["key"] == key(scenario, seed) and header["until"] < scenario.quiet_until)


def restore(simulation: Simulation, path: Path) -> None:
    """Go on from the overlay in `path`. Raises WarmUpError where that is another run's."""
    if not fits(path, simulation.scenario, simulation.seed):
        raise mismatch(path, simulation.scenario, simulation.seed)
    with path.open("rb") as file:
        file.readline()
        reader = _Reader(file, simulation)
        nodes = reader.nodes
        for kind in reader.load():
            nodes.append(kind.__new__(kind))
        for node, attributes in zip(nodes, reader.load(), strict=True):
            _fill(node, attributes)
            simulation.network.add(node)
        for owner, attributes in reader.load().items():
            _fill(_of(simulation, owner), attributes)


def _of(simulation: Simulation, owner: str) -> Any:
    return simulation if owner == "simulation" else getattr(simulation, owner)


def _header(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        try:
            header = json.loads(file.readline(1 << 20))
            return {"key": str(header["key"]), "until": float(header["until"])}
        except (ValueError, KeyError, TypeError) as error:
            raise WarmUpError(f"{path} is no kept warm-up") from error


def mismatch(path: Path, scenario: Scenario, seed: int) -> WarmUpError:
    """Why the overlay in `path` is not the one that this run warms up to."""
    header = _header(path)
    kept, wanted = json.loads(header["key"]), json.loads(key(scenario, seed))
    other = [name for name in wanted if kept.get(name) != wanted[name]]
    if other:
        return WarmUpError(f"{path} has another {', '.join(other)} than this run")
    begins = f"this run begins at {scenario.quiet_until:g} s"
    return WarmUpError(f"{path} ends at {header['until']:g} s, and {begins}")


# Objects to bytes and back: the same for interpreted and for compiled classes.


@cache
def _names(cls: type) -> tuple[str, ...]:
    # A class that isn't compiled may have a compiled base.
    named = (of.get("__mypyc_attrs__", of.get("__slots__", ())) for of in map(vars, cls.__mro__))
    return tuple(sorted({name for names in named for name in names} - {"__dict__"}))


def _attributes(made: object) -> dict[str, Any]:
    cls: Any = type(made)
    return {name: getattr(made, name) for name in _names(cls)}


def _fill(made: object, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        # Past what a frozen dataclass refuses.
        object.__setattr__(made, name, value)
    # What unpickles keeps all of these, which are larger than the objects themselves.
    attributes.clear()


@cache
def _is_own(cls: type) -> bool:
    return cls.__module__.startswith(_OWN) and not issubclass(cls, (type, tuple, Enum))


def _shared(simulation: Simulation) -> dict[str, object]:
    """What is referred to by name, since the run that takes the overlay has its own."""
    params = simulation.params
    return {
        "simulation": simulation,
        "network": simulation.network,
        "prefix_of": simulation.network.prefixes.get,
        "loop": simulation.loop,
        "records": simulation.records,
        "params": params,
        "membership": getattr(params, "membership", None),
        "broadcast": getattr(params, "broadcast", None),
    }


def _node_at(index: int) -> object:
    """Stands in the file for a node; `_Reader` has its own."""
    raise AssertionError


def _shared_at(name: str) -> object:
    """Stands in the file for what is shared; `_Reader` has its own."""
    raise AssertionError


class _Writer(pickle.Pickler):
    def __init__(self, file: Any, simulation: Simulation, nodes: list[Node]) -> None:
        super().__init__(file, protocol=5)
        self._prefixes = simulation.network.prefixes
        self._places: dict[int, tuple[Any, tuple[Any]]] = {
            id(node): (_node_at, (index,)) for index, node in enumerate(nodes)
        }
        self._places |= {
            id(value): (_shared_at, (name,))
            for name, value in _shared(simulation).items()
            if value is not None
        }

    def reducer_override(self, made: Any) -> Any:
        place = self._places.get(id(made))
        if place is not None:
            return place
        cls: Any = type(made)
        if cls in _METHODS:
            if made.__self__ is self._prefixes:
                return _shared_at, ("prefix_of",)
            if _is_own(made.__self__.__class__):
                return _method, (made.__self__, made.__name__)
        if cls is random.Random:
            version, state, gauss = made.getstate()
            return _generator, (version, b"".join(n.to_bytes(4, "little") for n in state), gauss)
        if isinstance(made, Enum):
            return cls, (made.value,)  # Python 3.11.2 and others: getattr, which isn't loaded.
        if _is_own(cls):
            return _new, (cls,), _attributes(made), None, None, _fill
        return NotImplemented


def _new(cls: Any) -> Any:
    return cls.__new__(cls)


def _method(made: object, name: str) -> object:
    cls: Any = type(made)
    if not _is_own(cls) or name.startswith("__"):
        raise WarmUpError(f"a kept warm-up has no {type(made).__name__}.{name}")
    return getattr(made, name)


def _generator(version: int, state: bytes, gauss: float | None) -> random.Random:
    made = random.Random()
    words = (int.from_bytes(state[at : at + 4], "little") for at in range(0, len(state), 4))
    made.setstate((version, tuple(words), gauss))
    return made


_METHODS = (MethodType, BuiltinMethodType)
_FOUND = {
    *((__name__, name) for name in ("_fill", "_generator", "_method", "_new")),
    ("collections", "deque"),
    ("episub_router.protocol.types", "anyone"),
    ("episub_router.protocol.types", "itself"),
    ("episub_router.protocol.types", "ungrouped"),
    ("episub_router.sim.routers.large", "belongs"),
    ("functools", "partial"),
}
"""What is found by name in a kept warm-up, beside our classes."""


class _Reader(pickle.Unpickler):
    """Finds nothing but what `save` may have written: a kept warm-up runs no other code."""

    def __init__(self, file: Any, simulation: Simulation) -> None:
        super().__init__(file)
        self.nodes: list[Node] = []
        self._shared = _shared(simulation)

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name in ("_node_at", "_shared_at"):
            at: Callable[[Any], object] = self.nodes.__getitem__
            return at if name == "_node_at" else self._shared.__getitem__
        if (module, name) in _FOUND:
            return super().find_class(module, name)
        if module.startswith(_OWN):
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise WarmUpError(f"a kept warm-up has no {module}.{name}")
