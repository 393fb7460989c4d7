"""Places in Markdown that a program fills, between comments that no reader sees.

A block, whose first comment has its kind and name:

    <!-- result: trees -->
    ...
    <!-- end -->

A figure is the word before its comment: `109<!--= trees / one source / p99_uniform --> ms`. (A
comment that begins a line would end the paragraph.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

Maker = Callable[[str], str]
"""What stands in a place, by its name; KeyError where there is none of this name."""

_BLOCK = re.compile(r"(?s)<!-- [a-z]+: [^\n]+ -->\n.*?<!-- end -->")
_COMMENT = re.compile(r"(?s)<!--.*?-->")
_FIGURE = re.compile(r"[^\s(|]+(<!--= (.+?) -->)")


def fill(text: str, blocks: Mapping[str, Maker], figure: Maker | None = None) -> str:
    """`text` with all its marked places made anew; `blocks` by kind. ValueError where a place isn't
    whole."""
    kinds = "|".join(map(re.escape, blocks)) or "(?!)"
    block = re.compile(rf"(<!-- ({kinds}): (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
    if len(re.findall(rf"<!-- (?:{kinds}): ", text)) != len(block.findall(text)):
        raise ValueError("a marked block is not closed")
    if text.count("<!--= ") != len(_FIGURE.findall(text)):
        raise ValueError("a mark has no figure before it on its line")
    text = block.sub(
        lambda found: f"{found[1]}{blocks[found[2]](found[3]).strip()}\n\n{found[4]}", text
    )
    if figure is not None:
        text = _FIGURE.sub(lambda found: figure(found[2]) + found[1], text)
    return text


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(map(str, row))} |" for row in (titles, *rows)]
    lines.insert(1, "|---" * len(titles) + "|")
    return "\n".join(lines).replace("|  |", "| |")


def written(text: str) -> str:
    """What somebody wrote of `text`: no blocks, whatever fills them, and no comments."""
    return _COMMENT.sub("", _BLOCK.sub("", text))
