"""`episub report`: the answers about some runs as a page, from a lake or straight from traces.

Exit status: 0 done, 1 it can't be done or a budget is broken, 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from episub_router.cli import pipeline
from episub_router.cli.arguments import CommandError, lacks_extra, seconds

if TYPE_CHECKING:
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.report.model import Report


_ROWS = ".jsonl"


def add_parser(subparsers: Any) -> None:
    """Add the command `report` to the subparsers of the main one."""
    parser = subparsers.add_parser("report", help="the answers about some runs as a page")
    parser.add_argument("runs", nargs="+", metavar="RUN",
                        help="a run in the lake, with answers; without --lake traces: files, "
                        "directories, patterns, or Hadoop URIs")  # fmt: skip
    parser.add_argument("--baseline", metavar="RUN", action="append", default=[],
                        help="the run, or traces, to hold the others against "
                        "(again: more seeds)")  # fmt: skip
    parser.add_argument("--require", action="append", default=[], metavar="BUDGET",
                        help="what a figure must be, as in p99<1s or lost=0 (again for more); "
                        "printed as Markdown, and exit status 1 if one is broken")  # fmt: skip
    parser.add_argument("--out", type=Path, action="append", default=[], metavar="FILE",
                        help="what to write, by its name: .html, .md or .json, "
                        "or .jsonl for all rows behind the figures "
                        "(again for more)")  # fmt: skip
    parser.add_argument("--deadline", type=seconds, metavar="SECONDS",
                        help="after which a delivery is late (default 3; with --lake, that of "
                        "its answers)")  # fmt: skip
    pipeline.add_common(parser, _report, looks=lambda given: given.lake is not None, passing=True)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    charts = any(path.suffix == ".html" for path in arguments.out)
    for package in ("pyspark", *(("jinja2", "vl_convert") if charts else ())):
        if find_spec(package) is None:  # said before Spark starts, which takes a while
            raise lacks_extra("report" if charts else "spark", f"No module named {package!r}")
    return pipeline.main(arguments)


def _report(arguments: argparse.Namespace, lake: Lake) -> int:
    from episub_router.pipeline.report.budgets import as_markdown, check, parse_budget
    from episub_router.pipeline.report.gathering import gather
    from episub_router.pipeline.report.params import ReportParams
    from episub_router.pipeline.report.queries import raw_rows

    if not (arguments.out or arguments.require):
        raise CommandError("nothing to do: name a file with --out, or a budget with --require")
    budgets = [parse_budget(text) for text in arguments.require]
    rows = [path for path in arguments.out if path.suffix == _ROWS]
    writers = [_writer(path, rows) for path in arguments.out]
    runs, baselines = arguments.runs, arguments.baseline
    if arguments.lake is None:
        runs, baselines = _taken(lake, runs), _taken(lake, baselines)
        both = ", ".join(set(runs) & set(baselines))
        if both:
            raise CommandError(f"both sides have traces of run {both}; a lake can rename one")
        pipeline.make_answers(lake, arguments, [*runs, *baselines])
    made = gather(lake, runs, baselines, ReportParams())
    if arguments.deadline not in (None, made.deadline):
        raise CommandError(
            f"the answers' deadline is {made.deadline:g} s: `episub pipeline answers --deadline "
            f"{arguments.deadline:g}` makes others"
        )
    for path, writer in zip(arguments.out, writers, strict=True):
        if path.suffix == _ROWS:
            with path.open("w", encoding="utf-8") as file:
                file.writelines(raw_rows(lake, list(dict.fromkeys((*runs, *baselines)))))
        else:
            path.write_text(writer(made), encoding="utf-8")
        print(path)
    checked = check(made, budgets)
    if checked:
        print(as_markdown(checked))
    return 0 if all(one.kept for one in checked) else 1


def _taken(lake: Lake, traces: Sequence[str]) -> list[str]:
    """The runs of `traces`, which are put into the lake; a directory is one, where headers don't
    name any, however its files are divided among others."""
    from episub_router.pipeline.ingest import ingest

    runs: list[str] = []
    for path in traces:
        name = os.path.basename(os.path.abspath(path)) if os.path.isdir(path) else None
        runs += ingest(lake.session, lake, [path], otherwise=name).runs
    return list(dict.fromkeys(runs))


def _writer(path: Path, rows: Sequence[Path]) -> Callable[[Report], str]:
    """What makes the text of `path`; a page points to the files `rows`."""
    if path.suffix == ".json":
        return lambda made: json.dumps(made.to_dict(), indent=1) + "\n"
    if path.suffix == ".md":
        from episub_router.pipeline.report.markdown import as_markdown

        return as_markdown
    if path.suffix == ".html":
        from episub_router.pipeline.report.html.page import as_html

        beside = [Path(os.path.relpath(one, path.parent)).as_posix() for one in rows]
        return lambda made: as_html(made, beside)
    if path.suffix == _ROWS:
        return lambda made: ""
    raise CommandError(f"--out {path}: its name must end in .html, .md, .json or .jsonl")
