"""docs/interop-suite.md says what tests/upstream/suite.toml says."""

from tests.upstream.render import PATH, render


def test_the_page_is_fresh() -> None:
    assert PATH.read_text(encoding="utf-8") == render(), (
        "docs/interop-suite.md is stale: run python -m tests.upstream.render"
    )
