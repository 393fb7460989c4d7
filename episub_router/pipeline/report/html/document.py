"""One HTML file with charts, which asks for nothing from anywhere."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader
from markupsafe import Markup


@cache
def environment() -> Environment:
    """The templates beside this file. What is put into them is escaped."""
    loader = PackageLoader("episub_router.pipeline.report.html", ".")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def document(title: str, style: str, body: str, specs: Mapping[str, Any]) -> str:
    """The file's text: `body` is HTML, with an element for the id of each of `specs`, charts of
    Vega-Lite."""
    # Names in it come from traces; none may end the script that it is in.
    safe = json.dumps(specs).replace("<", "\\u003c")
    javascript = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return (
        environment()
        .get_template("document.html")
        .render(
            title=title, style=Markup(style), body=Markup(body), specs=Markup(safe),
            javascript=Markup(javascript),
        )
    )  # fmt: skip
