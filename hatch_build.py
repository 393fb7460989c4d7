"""What an index shows, and the wheel with a compiled core: EPISUB_COMPILE=1 pip install .

Without EPISUB_COMPILE, and in editable installs, everything stays pure Python. `python
hatch_build.py FOLDER` makes a compiled copy of the package, to be put on PYTHONPATH.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

SWITCH = "EPISUB_COMPILE"
PACKAGE = "episub_router"
ROOT = Path(__file__).parent

COMPILED = (
    "protocol/**/*.py",
    "sim/network/*.py",
    "sim/routers/*.py",
    "sim/hashing.py",
    "sim/records.py",
    "sim/sizes.py",
    "util/bounded.py",
    "util/timers.py",
    "util/token_buckets.py",
    "util/trickle.py",
)
"""What is compiled, in the package."""

INTERPRETED = (
    "__init__.py",
    "params.py",
    "settings.py",
    "latency.py",
    "traced.py",
    "gossipsub_scored.py",
    "gossipsub_choke.py",
    "gossipsub_large.py",
)
"""What isn't, of that: settings, which are read once, and what is seldom run."""

ACYCLIC = (
    "effects.py",
    "events.py",
    "messages.py",
    "piece_messages.py",
    "records.py",
    "rtt.py",
    "util/trickle.py",
    "plumtree/message_cache.py",
    "plumtree/tree.py",
    "protocol/standing.py",
)
"""Modules whose objects lead back to none that holds them: the garbage collector need not look for
cycles there, which takes 16 bytes an object."""

WITHOUT_ATTRIBUTE = ("NamedTuple", "Enum", "IntEnum", "ValueError")
"""Bases of classes that mypyc leaves to the interpreter, or that no warm-up makes."""

NEEDED = ("mypy[mypyc]>=2.0,<3", "setuptools>=75")
"""To compile."""


HOME = "EPISUB_HOME"
SPECIFICATION = "https://github.com/libp2p/specs/blob/master/pubsub/gossipsub/episub.md"


class IndexPage(MetadataHookInterface):
    """The README and the addresses beside it, which lead to the repository at EPISUB_HOME."""

    def update(self, metadata: dict[str, Any]) -> None:
        home = os.environ.get(HOME, "").rstrip("/")
        text = outside_of_repository((ROOT / "README.md").read_text(encoding="utf-8"), home)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = {"Specification": SPECIFICATION}
        if home:
            metadata["urls"] |= {
                "Homepage": home,
                "Documentation": f"{home}/blob/HEAD/docs/index.md",
                "Issues": f"{home}/issues",
                "Changelog": f"{home}/blob/HEAD/CHANGELOG.md",
            }


def outside_of_repository(text: str, home: str) -> str:
    """`text` of Markdown, whose links into the repository lead to `home`; where that is empty they
    are words, and there are no pictures."""
    for mark, folder in (("!", "raw"), ("", "blob")):
        link = rf"{mark}\[([^\]]*)\]\((?!https?:|#|mailto:)([^)]+)\)"
        kept = f"{mark}[\\1]({home}/{folder}/HEAD/\\2)" if home else "" if mark else r"\1"
        text = re.sub(link, kept, text)
    return text


class CompiledCore(BuildHookInterface[Any]):
    """Adds the compiled modules to a wheel, beside their sources."""

    def _applies(self) -> bool:
        return self.target_name == "wheel" and os.environ.get(SWITCH, "0") not in ("", "0")

    def dependencies(self) -> list[str]:
        return [*NEEDED] if self._applies() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not self._applies():
            return
        folder = Path(self.directory) / "compiled"
        for extension in compile_into(folder):
            build_data["force_include"][str(extension)] = str(extension.relative_to(folder))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["dependencies"].append("mypy-extensions>=1")


def compile_into(folder: Path, optimize: str = "3") -> list[Path]:
    """Make a compiled copy of the package in `folder`; returns the extension modules.

    Raises subprocess.CalledProcessError where a compiler fails.
    """
    shutil.rmtree(folder / PACKAGE, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / PACKAGE, folder / PACKAGE, ignore=ignored)
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(folder / PACKAGE, Path(scratch, PACKAGE))
        modules = _modules(Path(scratch))
        for module in modules:
            source = module.read_text(encoding="utf-8")
            acyclic = module.as_posix().endswith(tuple(f"/{name}" for name in ACYCLIC))
            module.write_text(_prepared(source, acyclic=acyclic), encoding="utf-8")
        names = [str(module.relative_to(scratch)) for module in modules]
        # Another process, since mypyc and setuptools exit where something fails.
        program = [sys.executable, "-c", _PROGRAM, optimize, *names]
        environment = {**os.environ, "PYTHONPATH": ""}
        subprocess.run(program, cwd=scratch, env=environment, check=True, stdout=sys.stderr)
        built = [*Path(scratch, "built").rglob("*.so"), *Path(scratch, "built").rglob("*.pyd")]
        shutil.copytree(Path(scratch, "built"), folder, dirs_exist_ok=True)
        return [folder / extension.relative_to(Path(scratch, "built")) for extension in built]


_PROGRAM = f"""
import sys
from setuptools import setup
from mypyc.build import mypycify

optimize, *modules = sys.argv[1:]
options = ["--ignore-missing-imports", "--follow-imports=silent", "--config-file="]
extensions = mypycify(
    [*options, *modules], opt_level=optimize, debug_level="0", group_name="{PACKAGE}"
)
for extension in extensions:
    # Or a multiplication and an addition in one step give other bytes than Python does.
    extension.extra_compile_args = [*extension.extra_compile_args, "-ffp-contract=off"]
arguments = ["build_ext", "--build-lib", "built", "--build-temp", "temp"]
setup(name="{PACKAGE}", packages=[], py_modules=[], ext_modules=extensions, script_args=arguments)
"""


def _modules(folder: Path) -> list[Path]:
    package = folder / PACKAGE
    found = [path for pattern in COMPILED for path in package.glob(pattern)]
    return sorted(path for path in found if path.name not in INTERPRETED)


_FUTURE = "from __future__ import annotations"
# mypyc looks for the types of a dataclass's fields among the module's names.
_IMPORTS = (
    "from builtins import object; from typing import Final as _Final; "
    "from mypy_extensions import mypyc_attr as _mypyc_attr"
)


def _prepared(source: str, *, acyclic: bool) -> str:
    """`source` with what only mypyc needs, in places that move no line by much.

    A dataclass gets an `__init__`, since mypyc would call the interpreted one that `dataclass`
    makes. Classes allow subclasses that aren't compiled: the `__new__` of others calls `__init__`,
    and a kept warm-up makes objects without it. Numbers that are constants are said to be, or each
    use would look them up by name.
    """
    lines = source.splitlines()
    for found in reversed(ast.parse(source).body):
        if isinstance(found, ast.Assign | ast.AnnAssign) and _is_constant(found):
            line = lines[found.lineno - 1]
            name, value = line.split("=", 1)
            name, _, kind = name.partition(":")
            final = f"_Final[{kind.strip()}]" if kind else "_Final"
            lines[found.lineno - 1] = f"{name.strip()}: {final} ={value}"
        if not isinstance(found, ast.ClassDef):
            continue
        if any("dataclass" in ast.unparse(decorator) for decorator in found.decorator_list):
            lines[found.end_lineno : found.end_lineno] = _initializer(found)
        bases = [ast.unparse(base) for base in found.bases]
        if not any(base.startswith(WITHOUT_ATTRIBUTE) for base in bases):
            alone = acyclic and not any(base.startswith("dict[") for base in bases)
            attributes = f"allow_interpreted_subclasses=True, acyclic={alone}"
            lines.insert(found.lineno - 1, f"@_mypyc_attr({attributes})")
    return "\n".join(lines).replace(_FUTURE, f"{_FUTURE}; {_IMPORTS}", 1) + "\n"


def _is_constant(found: ast.Assign | ast.AnnAssign) -> bool:
    """Whether this is a constant, on one line, that is a number or computed from such ones."""
    target = found.targets[0] if isinstance(found, ast.Assign) else found.target
    if found.value is None or found.lineno != found.end_lineno:
        return False
    named = isinstance(target, ast.Name) and target.id.isupper()
    return named and (_is_number(found.value) or ast.unparse(found.value) == "float('inf')")


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) and _is_number(value.right)
    if isinstance(value, ast.UnaryOp):
        return _is_number(value.operand)
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float)


def _initializer(found: ast.ClassDef) -> list[str]:
    fields = [entry for entry in found.body if isinstance(entry, ast.AnnAssign)]
    if not fields or any(isinstance(field.value, ast.Call) for field in fields):
        return []
    parameters = [ast.unparse(field).replace(" = ", "=") for field in fields]
    names = [ast.unparse(field.target) for field in fields]
    return [
        f"    def __init__(self, {', '.join(parameters)}) -> None:",
        *(f"        self.{name} = {name}  # type: ignore[misc]" for name in names),
    ]


if __name__ == "__main__":
    compile_into(Path(sys.argv[1]), *sys.argv[2:])
