"""The charts' JavaScript is put together once, and pages don't need the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("vl_convert")

from episub_router.pipeline.report.html.bundle import javascript


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What was asked of the library, which takes a second."""
    asked: list[str] = []

    def put_together(snippet: str) -> str:
        asked.append(snippet)
        return f"// {len(asked)} é"

    monkeypatch.setattr("vl_convert.javascript_bundle", put_together)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return asked


def test_it_is_kept_and_few_others_are(made: list[str], tmp_path: Path) -> None:
    cache = tmp_path / "episub-router"
    cache.mkdir()
    for number in range(3):
        (cache / f"vega-0.{number}.js").touch()
    assert [javascript(), javascript()] == ["// 1 é"] * 2
    assert len(made) == 1
    assert len(list(cache.iterdir())) == 2


def test_without_a_cache_it_is_made_again(made: list[str], tmp_path: Path) -> None:
    (tmp_path / "episub-router").write_text("a file, where a directory would be")
    assert [javascript(), javascript()] == ["// 1 é", "// 2 é"]


def test_what_is_no_text_is_replaced(made: list[str], tmp_path: Path) -> None:
    javascript()
    [kept] = (tmp_path / "episub-router").iterdir()
    kept.write_bytes(b"\xff\xfe\xff")
    assert [javascript(), javascript()] == ["// 2 é"] * 2
