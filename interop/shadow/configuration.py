"""Shadow's files for a plan: the graph, the hosts and their processes, and the nodes' script."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from interop.plans.scenarios import begin
from interop.plans.script import (
    IfNodeIdEquals,
    Instruction,
    Publish,
    Subscribe,
    ValidationDelay,
    WaitUntil,
    as_json,
)
from interop.shadow.kinds import KINDS
from interop.shadow.scenario import Plan

TOPIC, LARGE_TOPIC = "a-subnet", "a-subnet-of-large"
CAPTURED = 40
"""Bytes of each packet that are kept: its addresses stand there."""
_LEAST = 0.001
"""Seconds from a host to itself, over the graph: nothing goes there."""
_BUFFER = 7_500_000
"""Bytes of a socket's buffers: the harness's."""
_SPARE = 10.0
"""Seconds that nodes have to end."""


def write(plan: Plan, out: Path) -> Path:
    """Write the files into `out`; the path of Shadow's configuration."""
    (out / "graph.gml").write_text(graph(plan))
    (out / "params.json").write_text(as_json(script(plan)))
    path = out / "shadow.yaml"
    # JSON is YAML, too.
    path.write_text(json.dumps(configuration(plan, out), indent=1) + "\n")
    return path


def script(plan: Plan) -> list[Instruction]:
    """What the nodes do."""
    topics = [TOPIC, LARGE_TOPIC] if plan.nodes.separate else [TOPIC]
    delay = plan.nodes.validation
    settings: list[Instruction] = [ValidationDelay(topic, delay) for topic in topics if delay]
    steps = begin(plan.hosts, Random(plan.seed), settings, plan.nodes.connections)
    steps += [Subscribe(topic) for topic in topics]
    now = 0.0
    for number, message in enumerate(plan.publishings):
        if message.time > now:
            now = message.time
            steps.append(WaitUntil(now))
        topic = LARGE_TOPIC if message.large and plan.nodes.separate else TOPIC
        steps.append(IfNodeIdEquals(message.host, Publish(number, message.size, topic)))
    return [*steps, WaitUntil(plan.scenario.end)]


def graph(plan: Plan) -> str:
    """A node for each host, and an edge for each pair, with the simulator's latencies."""
    lines = ["graph [", "  directed 0"]
    for host in range(plan.hosts):
        rate = f'"{round(plan.mbit(host) * 1000)} Kbit"'
        lines += ["  node [", f"    id {host}"]
        lines += [f"    host_bandwidth_up {rate}", f"    host_bandwidth_down {rate}", "  ]"]
    for one in range(plan.hosts):
        for other in range(one, plan.hosts):
            delay = plan.network.delay(one, other) if one != other else _LEAST
            lines += ["  edge [", f"    source {one}", f"    target {other}"]
            lines += [f'    latency "{round(delay * 1e6)} us"']
            lines += [f"    packet_loss {plan.scenario.network.loss if one != other else 0.0}"]
            lines += ["  ]"]
    return "\n".join([*lines, "]"]) + "\n"


def address(host: int) -> str:
    """The host's, in Shadow."""
    return f"11.0.{host // 250}.{host % 250 + 1}"


def configuration(plan: Plan, out: Path) -> dict[str, object]:
    """Shadow's."""
    hosts = {}
    for host in range(plan.hosts):
        kind = KINDS[plan.kind(host)]
        process: dict[str, object] = {
            "path": str(kind.program),
            "args": [*kind.arguments(plan.piece_threshold), "--params", str(out / "params.json")],
            "environment": kind.environment(),
        }
        if host in plan.killed:
            process |= {
                "shutdown_time": f"{round(plan.killed[host] * 1000)} ms",
                "shutdown_signal": "SIGKILL",
                "expected_final_state": {"signaled": "SIGKILL"},
            }
        hosts[f"node{host}"] = {
            "network_node_id": host,
            "ip_addr": address(host),
            "processes": [process],
        }
    return {
        "general": {
            "stop_time": f"{round(plan.scenario.end + _SPARE)} s",
            "seed": plan.seed,
            "data_directory": str(out / "shadow"),
            # Go's runtime spins now and then: time has to go on meanwhile.
            "model_unblocked_syscall_latency": True,
        },
        "network": {
            "graph": {"type": "gml", "file": {"path": str(out / "graph.gml")}},
            "use_shortest_path": False,
        },
        "experimental": {
            "socket_recv_buffer": _BUFFER,
            "socket_send_buffer": _BUFFER,
            # A worker that spins takes a core from the processes that it waits for.
            "use_worker_spinning": False,
        },
        "host_option_defaults": {"pcap_enabled": True, "pcap_capture_size": f"{CAPTURED} B"},
        "hosts": hosts,
    }
