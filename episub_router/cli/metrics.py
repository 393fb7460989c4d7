"""`episub metrics`: what Grafana and Prometheus need to show and watch nodes."""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files
from typing import Any


def add_parser(commands: Any) -> None:
    """Add `metrics` to the commands of an argument parser."""
    parser = commands.add_parser(
        "metrics",
        help="print a dashboard for Grafana, or alert rules for Prometheus",
        description="Print what shows and watches the metrics that nodes serve "
        "(`episub node --metrics`, or a NodeCollector).",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    for option, name, text in (
        ("--dashboard", "dashboard.json", "a dashboard for Grafana, as JSON"),
        ("--alerts", "alerts.yml", "alert rules for Prometheus, as YAML"),
    ):
        which.add_argument(option, dest="file", action="store_const", const=name, help=text)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    sys.stdout.write(files("episub_router").joinpath("monitoring", arguments.file).read_text())
    return 0
