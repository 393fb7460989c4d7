"""What a release has to say."""

from __future__ import annotations

import re
import runpy
import subprocess
from typing import Any

import pytest

pytest.importorskip("griffe")

from tests.docs.snippets import ROOT
from tests.house import release

CHANGELOG = """# Changelog

## [Unreleased]

## [1.1.0] - 2027-01-02

### Added

- A thing ([of KaC](https://keepachangelog.com)), and [its page](docs/thing.md).

## Upgrading from 1.0

1. Nothing.

## [1.0.0] - 2026-12-01

- The rest.
"""


def test_notes_have_the_upgrade_and_nothing_of_other_releases() -> None:
    said = release.notes(CHANGELOG, "1.1.0")
    assert said.startswith("episub-router 1.1.0\n\n### Added")
    assert "([of KaC](https://keepachangelog.com)), and its page (docs/thing.md).\n" in said
    assert said.endswith("1. Nothing.\n")


@pytest.mark.parametrize("version", ["2.0.0", "Unreleased"])
def test_a_release_without_a_part_in_the_changelog_is_refused(version: str) -> None:
    with pytest.raises(ValueError, match=f"no part for {version}"):
        release.notes(CHANGELOG, version)


def test_a_tag_names_the_version() -> None:
    assert release.problems("1.1.0", CHANGELOG, ["v1.0.0"])[0] == "the tag v1.0.0 is not v1.1.0"
    assert not [each for each in release.problems("1.1.0", CHANGELOG, ["v1.1.0"]) if "tag" in each]


def test_the_version_stands_in_one_place() -> None:
    """And in the changelog, whose newest release it is."""
    version = release.version()
    found = subprocess.run(
        ["git", "grep", "--fixed-strings", "--name-only", version],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert found == ["CHANGELOG.md", "pyproject.toml"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)[:2] == ["Unreleased", version]


def test_make_release_makes_all_of_it() -> None:
    made = subprocess.run(
        ["make", "--dry-run", "release"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    # Whether it may be released, sources and the pure wheel, the first program from it, the SBOM,
    # the compiled wheel, and the notes.
    steps = (
        "-m tests.house.release\n", "-m build --outdir dist", "first_program.py",
        "dist/episub-router.cdx.json", "EPISUB_COMPILE=1", "--notes >dist/notes.md",
    )  # fmt: skip
    places = [made.index(step) for step in steps]
    assert places == sorted(places)


@pytest.mark.parametrize("home", ["", "https://forge.example/owner/name"])
def test_links_of_the_index_page_lead_somewhere(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hatchling")
    hatch_build = runpy.run_path(str(ROOT / "hatch_build.py"))
    monkeypatch.setenv("EPISUB_HOME", home)
    metadata: dict[str, Any] = {}
    hatch_build["IndexPage"](str(ROOT), {}).update(metadata)
    text, urls = metadata["readme"]["text"], metadata["urls"]
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert targets
    assert all(target.startswith(("https://", "#")) for target in targets)
    assert (f"]({home}/blob/HEAD/docs/quick-start.md)" in text) == bool(home)
    assert ("![" in text) == (f"]({home}/raw/HEAD/docs/results/copies.svg)" in text) == bool(home)
    assert {"Homepage", "Documentation", "Issues"} <= set(urls) if home else len(urls) == 1
