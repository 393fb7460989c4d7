"""The dashboard and the alerts of `episub metrics` ask for what nodes report, in a way that a real
Prometheus understands."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import trio
from prometheus_client import CollectorRegistry, start_http_server

from episub_router import EpisubRouter, NodeCollector, ResilientPubsub
from episub_router.cli.main import main
from tests import children
from tests.children import child
from tests.docs.snippets import ROOT
from tests.hosts import PATIENCE, free_port, running_nodes
from tests.router.overlays import TOPIC, router

MONITORING = ROOT / "episub_router" / "monitoring"
ALERTS = MONITORING / "alerts.yml"
PANELS = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
TEXT = (ROOT / "docs" / "metrics-node.md").read_text()

_CONFIG = """\
global: {{ scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms }}
rule_files: ["{alerts}"]
scrape_configs:
  - job_name: episub
    static_configs: [{{ targets: ["127.0.0.1:{port}"] }}]
"""


def test_only_what_is_documented_is_asked_for() -> None:
    asked = [*EXPRESSIONS, ALERTS.read_text()]
    metrics = {name for text in asked for name in re.findall(r"(?:gossipsub|episub)_\w+", text)}
    assert len(metrics) >= 6
    assert not [name for name in metrics if f"| `{name}` |" not in TEXT]
    found = {name for text in asked for name in re.findall(r'event=~?"([^"$]+)"', text)}
    events = {name for names in found for name in names.split("|")} - {"frames-(sent", "received)"}
    assert len(events) >= 8
    assert not [name for name in events if f"| `{name}` |" not in TEXT]


def test_the_rules_are_rules() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not there: the alert rules are not checked.")
    children.run(["promtool", "check", "rules", str(ALERTS)], check=True, capture_output=True)


@pytest.mark.parametrize("file", ["dashboard.json", "alerts.yml"])
def test_the_command_prints_them(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", f"--{file.partition('.')[0]}"]) == 0
    assert capsys.readouterr().out == (MONITORING / file).read_text()


@pytest.mark.hosts
async def test_a_prometheus_runs_every_expression(tmp_path: Path) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("Prometheus is not there: the dashboard's expressions are not run.")
    registry = CollectorRegistry()
    async with running_nodes(1, router=EpisubRouter, pubsub_class=ResilientPubsub) as [node]:
        registry.register(NodeCollector(node.pubsub, router(node)))
        await node.pubsub.subscribe(TOPIC)
        metrics, own = free_port(), free_port()
        server, _ = start_http_server(metrics, addr="127.0.0.1", registry=registry)
        config = tmp_path / "prometheus.yml"
        config.write_text(_CONFIG.format(alerts=ALERTS, port=metrics))
        command = [
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{own}",
        ]  # fmt: skip
        try:
            with child(command, stderr=subprocess.DEVNULL):
                prometheus = Prometheus(own)
                alone = f'count_over_time(gossipsub_mesh_peers{{topic="{TOPIC}"}}[1m]) > 3'
                await prometheus.until(lambda: prometheus.query(alone))
                for expression in EXPRESSIONS:
                    asked = re.sub(r"\$__rate_interval", "1m", expression)
                    prometheus.query(re.sub(r"\$(instance|topic)", ".*", asked))
                [series] = prometheus.query("gossipsub_mesh_peers")
                assert series["value"][1] == "0"
                await prometheus.until(
                    lambda: {rule["health"] for rule in prometheus.rules()} == {"ok"}
                )
                states = {rule["name"]: rule["state"] for rule in prometheus.rules()}
                assert states.pop("EpisubAlone") == "pending"
                assert set(states.values()) == {"inactive"}
        finally:
            server.shutdown()
            server.server_close()


class Prometheus:
    """The HTTP API of a running one."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def query(self, expression: str) -> list[Any]:
        answer = self._get(f"query?{urlencode({'query': expression})}")
        return list(answer["result"])

    def rules(self) -> list[Any]:
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until it is there, and `holds` is true."""
        with trio.fail_after(PATIENCE):
            while True:
                try:
                    if holds():
                        return
                except OSError:
                    pass  # it is still starting
                await trio.sleep(0.1)

    def _get(self, path: str) -> Any:
        with urlopen(f"{self._url}/{path}", timeout=30) as answer:
            read = json.load(answer)
        assert read["status"] == "success"
        return read["data"]
