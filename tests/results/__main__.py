"""Make results: docs/results/NAME.json.

    python -m tests.results [NAME ...] [--seeds N] [--processes N] [--compiled DIR]
                            [--warm DIR] [--older]
    python -m tests.results --list

Without names all are made but those that have to be named, as they take hours or programs that must
be installed first. `python -m tests.docs.figures --write` puts the figures into the documents.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tests.docs.snippets import ROOT
from tests.results.files import (
    FOLDER,
    Result,
    Row,
    commit,
    digests,
    machine,
    read,
    same_as,
    write,
)
from tests.results.recipes import RECIPES, SIMULATE, Recipe

_GOSSIPSUB_CODE = (
    "sim/adversaries/gossipsub.py", "sim/faults.py", "sim/metrics", "sim/network", "sim/routers",
    "sim/scenario", "sim/simulation.py",
)  # fmt: skip


class RecipeFailed(Exception):
    """A command ended with an error, or printed no rows."""


def make(recipe: Recipe, options: argparse.Namespace, environment: Mapping[str, str]) -> Result:
    """Run what makes one result; gossipsub's rows may come from the file that is there."""
    started = time.monotonic()
    at, day = commit(), datetime.now(UTC).date().isoformat()
    before = machine()
    commands = [*recipe.commands]
    seeds: Sequence[int] = ()
    more: list[str] = []
    kept: Kept = Kept()
    if recipe.simulated:
        seeds = [*range(1, min(options.seeds, recipe.seeds or options.seeds) + 1)]
        more = ["--seeds", str(len(seeds))]
        if options.nodes is None:
            kept = keep_gossipsub(recipe, seeds, options)
        else:
            more += ["--nodes", str(options.nodes)]
    rows: list[Row] = []
    for command in commands:
        given = [*(_only(command, kept.others) if kept.rows else command), *more]
        if recipe.simulated:
            given += ["--processes", str(options.processes), "--json"]
            given += ["--warm", str(options.warm)] if options.warm is not None else []
        rows += recipe.read(_output(given, environment))
    if not rows:
        raise RecipeFailed("no rows")
    build = _output(["-m", "episub_router", "sim", "--version"], environment)
    made = {"commit": at, "date": day, "code": gossipsub_code()}
    return Result(
        name=recipe.name,
        command="; ".join(_shown([*command, *more]) for command in commands),
        commit=at,
        date=day,
        machine={**before, "core": build.split(", ")[-1].strip()},
        seeds=seeds,
        code=digests(recipe.code),
        seconds=round(time.monotonic() - started),
        gossipsub=kept.of or (made if seeds else {}),
        rows=[*rows, *kept.rows],
    )


def _only(command: Sequence[str], variants: Sequence[str]) -> list[str]:
    """`command` with these variants in place of its own choice."""
    words = list(command)
    while "--variant" in words:
        del words[(at := words.index("--variant")) : at + 2]
    return words + [word for name in variants for word in ("--variant", name)]


def gossipsub_code() -> str:
    """A digest of all that gossipsub's rows depend on."""
    return sha256("".join(digests(_GOSSIPSUB_CODE).values()).encode()).hexdigest()[:12]


class Kept(NamedTuple):
    """Rows of gossipsub that needn't be made again, what they are of, and the other variants."""

    rows: Sequence[Row] = ()
    of: Mapping[str, str] = {}
    others: Sequence[str] = ()


def keep_gossipsub(recipe: Recipe, seeds: Sequence[int], options: argparse.Namespace) -> Kept:
    """From the result that is there, if it is of the same seeds and the same simulator."""
    there = None if options.all else read(recipe.name, options.out)
    if there is None or there.seeds != seeds:
        return Kept()
    if there.gossipsub.get("code") not in same_as("gossipsub", gossipsub_code()):
        return Kept()
    rows = [row for row in there.rows if row.get("router") == "gossipsub"]
    others = dict.fromkeys(row.get("variant") for row in there.rows if row not in rows)
    return Kept(rows, there.gossipsub, [*others]) if rows and all(others) and others else Kept()


def _output(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    # Without -P the working directory would come before a compiled package.
    done = subprocess.run(
        [sys.executable, "-P", *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env=environment,
    )  # fmt: skip
    # 1: something was not delivered, which the rows say.
    if done.returncode not in (0, 1) or not done.stdout:
        raise RecipeFailed(f"{shlex.join(arguments)} ended with {done.returncode}")
    return done.stdout


def _shown(command: Sequence[str]) -> str:
    simulated = tuple(command[: len(SIMULATE)]) == SIMULATE
    words = ["episub", *command[2:]] if simulated else ["python", *command]
    return shlex.join(word for word in words if word != "--json")


def compiled_paths(compiled: Path | None) -> str:
    """PYTHONPATH with the compiled package first; it must be of this tree's sources."""
    if compiled is None:
        return str(ROOT)
    package = compiled.absolute() / "episub_router"
    parts = ("protocol", "sim")
    if not package.is_dir() or digests(parts, package) != digests(parts):
        sys.exit(f"{compiled} is not of these sources: run python hatch_build.py {compiled}")
    return os.pathsep.join((str(package.parent), str(ROOT)))


def chosen(names: Sequence[str]) -> Iterator[Recipe]:
    for name in names or (name for name, recipe in RECIPES.items() if not recipe.alone):
        yield RECIPES[name]


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0, or 1 if a result couldn't be made."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("names", nargs="*", choices=[*RECIPES, []], metavar="NAME", help="see --list")
    add("--seeds", type=int, default=8, help="of simulated results (default 8)")
    add("--processes", type=int, default=1, help="simulations at a time (default 1)")
    add("--compiled", type=Path, metavar="DIR", help="from `python hatch_build.py DIR`")
    add("--warm", type=Path, metavar="DIR", help="keep overlays here: several results begin alike")
    add("--nodes", type=int, help="fewer nodes, to try the program")
    add("--all", action="store_true", help="gossipsub's rows anew, too, where they could be kept")
    add("--older", action="store_true", help="only those that are older than the code, or not made")
    add("--out", type=Path, default=FOLDER, help="default: docs/results")
    add(
        "--list",
        action="store_true",
        help="names, state, and how long each took",
    )
    options = parser.parse_args(arguments)
    if options.list:
        for recipe in chosen(list(RECIPES)):
            there = read(recipe.name)
            took = f"{there.seconds:,.0f} s" if there and there.seconds else ""
            state = "not made" if there is None else "" if there.is_current() else "older"
            print(f"{recipe.name:20} {'named only' if recipe.alone else '':12} {state:10} {took}")
        return 0
    environment = {**os.environ, "PYTHONPATH": compiled_paths(options.compiled)}
    for folder in (options.out, options.warm):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for recipe in chosen(options.names):
        there = read(recipe.name, options.out)
        if options.older and there is not None and there.is_current():
            continue
        try:
            made = make(recipe, options, environment)
        except RecipeFailed as error:
            print(f"{recipe.name}: {error}", file=sys.stderr)
            failed = 1
            continue
        path = write(made, options.out)
        print(f"{path.name}: {len(made.rows)} rows, {made.seconds:,.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
