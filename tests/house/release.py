"""What a release says: `python -m tests.house.release [--notes]`.

Checks that the version of pyproject.toml has its part in CHANGELOG.md, that a tag at this commit
names it, and that the public API breaks nobody's program; prints the version, or with --notes that
part of the changelog, for the tag and the forge.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable

from tests.docs.snippets import ROOT
from tests.house import api

_RELEASE = re.compile(r"^## \[(.+?)\].*$", re.MULTILINE)
_OWN_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)]+)\)")


def version() -> str:
    """The one place that has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def notes(changelog: str, release: str) -> str:
    """What the changelog says of a release, how to upgrade included; links into the repository,
    which lead nowhere from a tag's page, are paths. ValueError if it has none."""
    parts = _RELEASE.split(changelog)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    if not sections.get(release, "").strip():
        raise ValueError(f"CHANGELOG.md has no part for {release}")
    text = _OWN_LINK.sub(r"\1 (\2)", sections[release].strip())
    return f"episub-router {release}\n\n{text}\n"


def problems(release: str, changelog: str, tags: Iterable[str]) -> list[str]:
    """Why this can't be released, a line each."""
    found = [f"the tag {tag} is not v{release}" for tag in tags if tag != f"v{release}"]
    try:
        notes(changelog, release)
    except ValueError as error:
        found.append(str(error))
    kept = api.kept()
    for module, text in api.stubs().items():
        found += api.breakages(kept[module], text, module)
        if text != kept[module]:
            found.append(f"{module} has changed: python -m tests.house.api --write")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--notes", action="store_true", help="print the notes, and check nothing")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if parser.parse_args().notes:
        print(notes(changelog, version()), end="")
        return 0
    tags = subprocess.run(
        ["git", "tag", "--points-at", "HEAD", "--list", "v*"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    found = problems(version(), changelog, tags)
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    print(version())
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
