"""One HTML file with charts, which asks for nothing from anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from episub_router.pipeline.report.html.bundle import javascript

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data:"
)
"""Whatever is in the page, it reaches no other. Vega compiles its expressions."""

_START = """
const specs = JSON.parse(document.getElementById("specs").textContent);
const options = {renderer: "svg", actions: false};
Promise.all(Object.entries(specs).map(([id, spec]) => vegaEmbed("#" + id, spec, options)))
  .then(() => { document.documentElement.dataset.charts = Object.keys(specs).length; });
"""


def document(title: str, style: str, body: str, specs: Mapping[str, Any]) -> str:
    """The file's text: `body` has an element for the id of each of `specs`, charts of Vega-Lite."""
    # Names in it come from traces; none may end the script that it is in.
    safe = json.dumps(specs).replace("<", "\\u003c")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="specs">{safe}</script>
<script>{javascript()}</script>
<script>{_START}</script>
</body>
</html>
"""
