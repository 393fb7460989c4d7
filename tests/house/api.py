"""The public API as stubs, one for each public module: `python -m tests.house.api [--write]`.

Public is what docs/api.md lists. tests/house/api has the stubs of the last release; without --write
this prints what would break for its users, by the rules of griffe, and exits with 1 if there is
anything. Defaults are left out, as they may change in a minor release.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import griffe

from tests.docs.snippets import ROOT

PACKAGE = "episub_router"
MODULES = (PACKAGE, f"{PACKAGE}.aio", f"{PACKAGE}.sds")
FOLDER = Path(__file__).parent / "api"

_LISTED = re.compile(r"^::: (\S+)((?:\n    .*)*)", re.MULTILINE)
_MEMBERS = re.compile(r"(?:inherited_)?members: \[(.*?)\]")
_SPECIAL = {"__init__", "__aiter__", "__anext__", "__aenter__", "__aexit__", "__iter__", "__len__"}


def listed() -> dict[str, dict[str, Sequence[str]]]:
    """By module the names that docs/api.md lists, with the members that it chooses, if it does."""
    found: dict[str, dict[str, Sequence[str]]] = {module: {} for module in MODULES}
    for path, options in _LISTED.findall((ROOT / "docs" / "api.md").read_text(encoding="utf-8")):
        module, _, name = path.rpartition(".")
        chosen = [name.strip() for each in _MEMBERS.findall(options) for name in each.split(",")]
        found[module][name] = chosen
    return found


def stub(module: griffe.Module, names: Mapping[str, Sequence[str]]) -> str:
    """The stub of what `names` says of a module: no bodies, no defaults, with inherited members."""
    parts = []
    for name, chosen in sorted(names.items()):
        lines = [*_lines(name, _target(module[name]), chosen)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _target(found: griffe.Object | griffe.Alias) -> griffe.Object:
    return found.final_target if isinstance(found, griffe.Alias) else found


def _lines(name: str, found: griffe.Object, chosen: Sequence[str]) -> Iterator[str]:
    if isinstance(found, griffe.Function):
        if "staticmethod" in found.labels:
            yield "@staticmethod"
        elif "classmethod" in found.labels:
            yield "@classmethod"
        parameters = griffe.Parameters(
            *(
                griffe.Parameter(
                    each.name,
                    annotation=each.annotation,
                    kind=each.kind,
                    default=None if each.required else "...",
                )
                for each in found.parameters
                if not each.name.startswith("_")
            )
        )
        shown = griffe.Function(name, parameters=parameters, returns=found.returns)
        start = "async def" if "async" in found.labels else "def"
        yield f"{start} {shown.signature()}: ..."
    elif isinstance(found, griffe.Class):
        bases = ", ".join(str(base) for base in found.bases)
        yield f"class {name}({bases}):" if bases else f"class {name}:"
        members = {**found.inherited_members, **found.members}
        shown = [each for each in sorted(members) if _is_shown(each, chosen)]
        for each in shown:
            yield from ("    " + line for line in _lines(each, _target(members[each]), ()))
        if not shown:
            yield "    ..."
    else:
        kind = getattr(found, "annotation", None)
        yield f"{name}: {kind}" if kind else f"{name} = ..."


def _is_shown(name: str, chosen: Sequence[str]) -> bool:
    return name in _SPECIAL or (name in chosen if chosen else not name.startswith("_"))


@cache
def stubs() -> dict[str, str]:
    """The stubs of today's code, by module."""
    package = griffe.load(PACKAGE, search_paths=[ROOT], allow_inspection=False)
    modules = {PACKAGE: package, **{f"{PACKAGE}.{name}": package[name] for name in ("aio", "sds")}}
    return {name: stub(modules[name], names) for name, names in listed().items()}


def kept() -> dict[str, str]:
    """The stubs of the last release."""
    return {name: (FOLDER / f"{name}.pyi").read_text(encoding="utf-8") for name in MODULES}


def breakages(old: str, new: str, module: str = "episub_router") -> list[str]:
    """What breaks for users of `old`, a line each."""
    trees = [griffe.visit(module, Path(f"{module}.pyi"), text) for text in (old, new)]
    return [
        each.explain(griffe.ExplanationStyle.ONE_LINE).partition(": ")[2]
        for each in griffe.find_breaking_changes(*trees)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="keep today's API as the release's")
    write = parser.parse_args().write
    broken = []
    for name, text in stubs().items():
        path = FOLDER / f"{name}.pyi"
        if write:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        else:
            broken += breakages(path.read_text(encoding="utf-8"), text, name)
    print("\n".join(broken), end="\n" if broken else "")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
