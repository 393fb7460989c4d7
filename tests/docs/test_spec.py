"""docs/spec/episub-r2.md has the schema as it is."""

from __future__ import annotations

import re

from tests.docs.snippets import ROOT


def messages(schema: str) -> list[str]:
    """Messages without comments, spaces made one."""
    bare = re.sub(r"//[^\n]*", "", schema)
    return [" ".join(part.split()) for part in re.split(r"^(?=message )", bare, flags=re.MULTILINE)]


def test_the_schema_is_that_of_the_protocol() -> None:
    spec = (ROOT / "docs" / "spec" / "episub-r2.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```protobuf\n(.*?)^```$", spec, re.MULTILINE | re.DOTALL)
    ours = messages((ROOT / "proto" / "episub.proto").read_text(encoding="utf-8"))
    # The first block has the extension's codepoint, the first messages of ours as well.
    assert messages(blocks[1]) == ["", *ours[3:]]
    number = re.findall(r"episub = (\d+);", ours[1] + ours[2])
    assert re.findall(r"episub = (\d+);", blocks[0]) == number
