"""The program that makes results, and its files."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

import episub_router
from episub_router.sim.scenario import loading
from tests.results import __main__ as program
from tests.results import files
from tests.results.files import (
    FOLDER,
    Result,
    digest,
    digests,
    note_same,
    read,
    rounded,
    same_as,
    write,
)
from tests.results.recipes import RECIPES, SIMULATE, Recipe, simulated_rows
from tests.results.tables import TABLES


def result(**changed: Any) -> Result:
    made: dict[str, Any] = {
        "name": "some",
        "command": "episub sim run some",
        "commit": "1234567",
        "date": "2026-11-26",
        "machine": {"cores": 2},
        "rows": [{"variant": "episub", "payloads": 1.00031234, "missing": None}],
    }
    return Result(**made | changed)


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = write(result(seeds=[1, 2]), tmp_path)
    found = read("some", tmp_path)
    assert found == result(seeds=[1, 2], rows=[{"variant": "episub", "payloads": 1.0003}])
    assert len(path.read_text().splitlines()) == 11
    assert read("none", tmp_path) is None


def test_five_digits_are_kept() -> None:
    assert rounded({"a": 123456.7, "b": 1234567, "c": "x"}) == {
        "a": 123460.0,
        "b": 1234567,
        "c": "x",
    }


def test_a_result_is_older_than_other_code(tmp_path: Path) -> None:
    source = tmp_path / "protocol" / "topic.py"
    source.parent.mkdir()
    source.write_text("x = 1\n")
    made = result(code={"protocol": digest(tmp_path / "protocol")})
    assert made.is_current(tmp_path)
    source.write_text('"""Another docstring."""\n\nx = 1  # and a comment\n')
    assert made.is_current(tmp_path)
    source.write_text("x = 2\n")
    assert not made.is_current(tmp_path)
    source.write_text("x = 1\n")
    source.with_suffix(".toml").write_text("nodes = 1\n")
    assert not made.is_current(tmp_path)
    assert not result().is_current(tmp_path)


def test_a_result_is_of_code_that_gives_the_same_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SAME", tmp_path / "same.json")
    files.SAME.write_text("{}")
    note_same("protocol", "a", "b")
    note_same("net", "a", "x")
    note_same("protocol", "b", "c")
    assert same_as("protocol", "c") == same_as("protocol", "a") == ["a", "b", "c"]
    assert same_as("protocol", "x") == ["x"]
    (tmp_path / "protocol").mkdir()
    made = result(code={"protocol": "d"})
    assert not made.is_current(tmp_path)
    note_same("protocol, another", "d", digest(tmp_path / "protocol"))
    assert not made.is_current(tmp_path)
    note_same(f"protocol, {made.name}", "d", digest(tmp_path / "protocol"))
    assert made.is_current(tmp_path)


def test_no_result_names_a_path() -> None:
    for path in FOLDER.glob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert "/home" not in text, path.name
        assert "/work" not in text, path.name
        assert read(path.stem) is not None


def test_each_result_has_a_recipe_and_a_table() -> None:
    shown = {name for table in TABLES.values() for name in table.results}
    assert shown == RECIPES.keys()
    assert {path.stem for path in FOLDER.glob("*.json")} <= RECIPES.keys()


@pytest.mark.parametrize(
    "command",
    [each for recipe in RECIPES.values() if recipe.simulated for each in recipe.commands],
    ids=lambda command: " ".join(command[len(SIMULATE) :]),
)
def test_each_scenario_of_a_recipe_exists(command: tuple[str, ...]) -> None:
    scenario, *arguments = command[len(SIMULATE) :]
    wanted = [value for key, value in pairwise(arguments) if key == "--variant"]
    assert loading.load(scenario).scenarios({}, wanted or ("",))


def test_each_part_of_the_code_exists() -> None:
    package = Path(episub_router.__file__).parent
    for recipe in RECIPES.values():
        for part in recipe.code:
            assert (package / part).exists(), (recipe.name, part)


@pytest.mark.sim
def test_simulated_rows_are_plain_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    from episub_router.cli.main import main

    variant = "episub, uniform, noticed after 5 s"
    assert main(["sim", "run", "crash", "--nodes", "20", "--messages", "60", "--variant", variant,
                 "--seeds", "2", "--json"]) == 0  # fmt: skip
    rows = [*simulated_rows(capsys.readouterr().out)]
    assert [row["phase"] for row in rows][:2] == ["first fifty", "before"]
    assert {(row["variant"], row["nodes"]) for row in rows} == {(variant, 20)}
    assert 1.0 <= rows[0]["payloads"] < 8.0
    json.dumps(rows)


RUNS = "import sys; print(sys.argv[1:].count('--variant'), ' '.join(sys.argv[1:]))"


def own_recipe(router: str) -> Recipe:
    def rows(text: str) -> Any:
        yield {"variant": "episub, x", "router": "episub", "said": text.strip()}
        if "gossipsub" not in router and "--variant episub, x" not in text:
            yield {"variant": "gossipsub, x", "router": "gossipsub", "said": text.strip()}

    return Recipe(
        name="own", commands=[("-c", RUNS)], code=("protocol",), read=rows, simulated=True
    )


def made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    monkeypatch.setitem(RECIPES, "own", own_recipe(""))
    assert program.main(["own", "--out", str(tmp_path), *arguments]) == 0
    found = read("own", tmp_path)
    assert found is not None
    return found


def test_rows_of_gossipsub_are_kept_while_the_simulator_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made_again(tmp_path, monkeypatch, "--seeds", "2")
    assert first.seeds == [1, 2]
    assert first.code == digests(("protocol",))
    assert first.gossipsub["commit"] == first.commit
    assert first.machine["core"] in ("compiled", "pure Python")
    write(replace(first, gossipsub={**first.gossipsub, "commit": "0000000"}), tmp_path)
    again = made_again(tmp_path, monkeypatch, "--seeds", "2")
    assert again.gossipsub["commit"] == "0000000"
    assert again.rows[0]["said"].startswith("1 ")
    assert again.rows[1] == first.rows[1]
    monkeypatch.setattr(files, "SAME", tmp_path / "same_code.json")
    files.SAME.write_text("{}")
    note_same("gossipsub", "before", program.gossipsub_code())
    for code, commit in (("before", "0000000"), ("another", first.commit)):
        write(replace(first, gossipsub={"commit": "0000000", "code": code}), tmp_path)
        kept = made_again(tmp_path, monkeypatch, "--seeds", "2").gossipsub
        assert kept["commit"] == commit
    assert made_again(tmp_path, monkeypatch, "--seeds", "3", "--older").seeds == [1, 2]
    assert made_again(tmp_path, monkeypatch, "--seeds", "3").gossipsub["commit"] == first.commit


def test_a_result_whose_rows_have_no_variant_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made_again(tmp_path, monkeypatch, "--seeds", "2")
    write(replace(first, rows=[{"router": "episub", "said": "counters"}]), tmp_path)
    assert made_again(tmp_path, monkeypatch, "--seeds", "2").rows == first.rows


def test_a_recipe_that_fails_leaves_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(result(name="own"), tmp_path)
    failing = Recipe(name="own", commands=[("-c", "raise SystemExit(3)")], code=(), read=iter)
    monkeypatch.setitem(RECIPES, "own", failing)
    assert program.main(["own", "--out", str(tmp_path)]) == 1
    assert "ended with 3" in capsys.readouterr().err
    assert read("own", tmp_path) is not None


def test_a_compiled_package_is_of_the_same_sources(tmp_path: Path) -> None:
    for part in ("protocol", "sim"):
        copytree(Path(episub_router.__file__).parent / part, tmp_path / "episub_router" / part)
    assert program.compiled_paths(tmp_path).startswith(f"{tmp_path}{os.pathsep}")
    (tmp_path / "episub_router" / "protocol" / "params.py").write_text("x = 1\n")
    with pytest.raises(SystemExit, match="not of these sources"):
        program.compiled_paths(tmp_path)
