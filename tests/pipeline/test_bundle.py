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
    assert javascript() == javascript()
    assert len(made) == 1
    assert len(list(cache.iterdir())) == 2


def test_without_a_cache_it_is_made_again(
    made: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where there is a file in place of the directory, and where a user has no home."""
    (tmp_path / "episub-router").write_text("a file")
    assert javascript().startswith("// 1 é")
    monkeypatch.delenv("XDG_CACHE_HOME")

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert javascript().startswith("// 2 é")


@pytest.mark.parametrize("kept", [b"", b"// 1", b"\xff\xfe\xff"])
def test_what_isn_t_all_of_it_is_replaced(made: list[str], tmp_path: Path, kept: bytes) -> None:
    whole = javascript()
    [path] = (tmp_path / "episub-router").iterdir()
    path.write_bytes(kept)
    assert javascript() == whole.replace("1", "2")
    assert path.read_text(encoding="utf-8") == whole.replace("1", "2")
