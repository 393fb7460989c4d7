"""Hostile members of a simulated overlay: each does what its kind says, and none is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from episub_router.protocol.hyparview import Places
from episub_router.protocol.messages import TreeRoot
from episub_router.sim.adversaries.cast import ROUTERS, Cast
from episub_router.sim.adversaries.member import INVENTED
from episub_router.sim.metrics import eclipse
from episub_router.sim.metrics.eclipse import Look
from episub_router.sim.records import HOSTILE, Records
from episub_router.sim.results.summary import summarize
from episub_router.sim.routers.episub import TOPIC_NAME
from episub_router.sim.runner import run
from episub_router.sim.scenario import loading
from episub_router.sim.scenario.settings import Scenario
from episub_router.sim.simulation import Simulation
from episub_router.sim.strict import ScenarioError
from episub_router.sim.trace import TraceWriter
from episub_router.trace.simulated import Row
from tests.sim.simulated import scenario_of, simulated, simulation_of

SCENARIO = """
name = "few"
[network]
nodes = 30
[join]
over = 3.0
via = "first"
[traffic]
source = "few"
sources = 2
messages = 20
start = 10.0
interval = 0.5
settle = 5.0
[[adversaries]]
kind = "KIND"
count = 6
at = 12.0
"""


def scenario(
    kind: str, *settings: str, router: str = "episub", rings: int | None = None
) -> Scenario:
    chosen = loading.parse_settings([f"adversaries.0.{setting}" for setting in settings])
    if rings is not None:
        chosen["router.params.membership.rings"] = rings
    chosen["router.kind"] = router
    if router == "gossipsub":
        chosen["router.scoring"] = True
    return scenario_of(SCENARIO.replace("KIND", kind), chosen)


@dataclass
class Ran:
    """A run, and the events of hostile nodes from the moment on at which they struck."""

    simulation: Simulation
    kept: Sequence[Row]

    @property
    def sent(self) -> list[Row]:
        return [row for row in self.kept if row.event == "sendRPC"]

    @property
    def cast(self) -> Cast:
        return self.simulation.cast

    def said(self, control: str) -> list[Row]:
        return [row for row in self.sent if row.control == control]

    def pushed(self) -> list[Row]:
        return [row for row in self.sent if row.control is None]

    def parents(self) -> list[tuple[int, int]]:
        """(source, parent) of the honest nodes' deliveries of what came after the strike."""
        return [
            (message.source, message.parent[node])
            for message in self.simulation.records.messages
            for node in range(len(message.parent))
            if message.published > self.cast.begins and message.parent[node] >= 0
        ]

    def summary(self) -> dict[str, Any]:
        return summarize(self.simulation)


def ran(
    kind: str, *settings: str, router: str = "episub", rings: int | None = None, seed: int = 1
) -> Ran:
    chosen = scenario(kind, *settings, router=router, rings=rings)
    records = Records(chosen.capacity)
    kept: list[Row] = []
    records.trace = TraceWriter(kept.extend)
    simulation = Simulation(chosen, seed, records)
    simulation.run()
    records.trace.flush()
    cast, begins = simulation.cast, simulation.cast.begins * 1e9
    return Ran(simulation, [row for row in kept if row.time >= begins and row.peer in cast])


@cache
def plain(kind: str, router: str = "episub") -> Ran:
    """A run that several tests look at."""
    return ran(kind, router=router)


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """What is kept makes each collection slower, and each run of another test begins with one."""
    yield
    plain.cache_clear()


def hostile_parents(it: Ran) -> int:
    return sum(parent in it.cast for _, parent in it.parents())


@pytest.mark.sim
@pytest.mark.parametrize(
    ("router", "kind"),
    [(router, of.kind) for router in ("episub", "gossipsub") for of in ROUTERS[router]],
)
def test_only_honest_nodes_are_measured(router: str, kind: str) -> None:
    summary = plain(kind, router).summary()
    (phase,) = summary["phases"]
    assert phase["overlay"]["nodes"] == 30 - 6
    assert summary["traffic"][HOSTILE]["sends"] > 0
    assert summary["unexplained"] == 0
    assert phase["deliveries"] <= 20 * (30 - 6 - 1)
    assert phase["hostile"]["honest_links_mean"] > 0


@pytest.mark.sim
def test_they_behave_until_they_strike() -> None:
    late, never = run(scenario("censor", "at=19.0"), 1), run(scenario("censor", "at=99.0"), 1)
    before = [
        [result.summary["messages"][key][:16] for key in ("ldh", "mean_hops")]
        for result in (late, never)
    ]
    assert before[0] == before[1]
    assert late.summary["traffic"] != never.summary["traffic"]


@pytest.mark.sim
def test_a_censor_passes_nothing_on_and_answers_queries() -> None:
    it = plain("censor")
    assert not it.pushed()
    assert not it.said("IHAVE")
    assert it.said("NEIGHBOR-LIST")
    assert hostile_parents(it) == 0


@pytest.mark.sim
@pytest.mark.parametrize("router", ["episub", "gossipsub"])
def test_a_covert_censor_passes_on_all_but_one_sources_messages(router: str) -> None:
    it = ran("censor", "sources=1", router=router)
    messages = it.simulation.records.messages
    pushed = {messages[row.message].source for row in it.pushed() if row.message is not None}
    assert pushed == {it.simulation.sources[1]}


@pytest.mark.sim
def test_covert_flash_is_everybodys_parent_and_then_nobodys() -> None:
    it, honest = ran("covert-flash", "at=16.0"), ran("censor", "at=16.0")
    of_hostile = [
        sum(
            message.parent[node] in each.cast
            for message in each.simulation.records.messages
            for node in range(30)
            if message.published < 15
        )
        for each in (it, honest)
    ]
    assert of_hostile[0] > of_hostile[1]
    assert hostile_parents(it) == 0


@pytest.mark.sim
@pytest.mark.parametrize(
    ("kind", "router"),
    [("ihave-liar", "episub"), ("hijack", "episub"), ("ihave-liar", "gossipsub")],
)
def test_a_liar_announces_to_all_and_delivers_nothing(kind: str, router: str) -> None:
    it = plain(kind, router)
    announced = {message for row in it.said("IHAVE") for message in row.messages or ()}
    assert announced >= set(range(5, 20))
    assert {n for row in it.said("IHAVE") for n in row.announced or (1,)} == {1}
    assert not it.pushed()
    assert hostile_parents(it) == 0
    at_once = [row for row in it.said("PRUNE") if row.time == it.cast.begins * 1e9]
    assert len({row.peer for row in at_once}) == (6 if kind == "hijack" else 0)


@pytest.mark.sim
def test_a_root_liar_is_the_first_with_each_root() -> None:
    it = ran("root-liar", "at=0.0")
    roots = it.said("ROOT")
    members = it.cast.rings[0].members
    # All at the moment at which one of them has learned it.
    assert {row.peer for row in roots if row.time == roots[0].time} == set(members)
    assert not it.pushed()


@pytest.mark.sim
@pytest.mark.parametrize("victims", [0, 1])
def test_the_greedy_ask_all_that_they_aim_at_again_and_again(victims: int) -> None:
    it = ran("greedy", f"victims={victims}")
    asked = {row.remote for row in it.said("JOIN")}
    ring = it.cast.rings[0]
    assert asked <= set(ring.victims if victims else ring.honest)
    assert len(asked) == (1 if victims else 24)
    assert it.said("NEIGHBOR-REQUEST")
    assert not it.pushed()


@pytest.mark.sim
def test_late_comers_come_when_they_are_said_to() -> None:
    it = ran("greedy", "comes=14.0")
    started = {session.node: session.started for session in it.simulation.records.sessions}
    assert {started[node] for node in it.cast.rings[0].members} == {14.0}
    assert max(started[node] for node in it.cast.rings[0].honest) < 3.0


@pytest.mark.sim
def test_captors_accept_joins_together() -> None:
    """With rings of its own, a node that joins sends no JOIN that they could answer."""
    it = ran("join-capture", "at=0.0", rings=0, seed=2)
    accepts: dict[int, set[int]] = {}
    for row in it.said("NEIGHBOR-ACCEPT"):
        accepts.setdefault(row.remote or 0, set()).add(row.peer)
    assert 2 * max(len(by) for by in accepts.values()) > len(it.cast.rings[0].members)


@pytest.mark.sim
def test_poison_shuffles_more_than_the_honest_do() -> None:
    assert len(plain("poison").said("SHUFFLE")) > 5 * len(plain("censor").said("SHUFFLE"))


@pytest.mark.sim
def test_duplicates_come_as_often_as_they_are_said_to() -> None:
    once, often = (len(ran("censor", "withheld=0.0", f"copies={n}").pushed()) for n in (1, 5))
    assert often > 2 * once


@pytest.mark.sim
def test_members_whose_core_keeps_no_message_copy_each_once() -> None:
    """Else they would send each other ever more: one run of a search took minutes."""
    it = ran("greedy", "copies=2", "withheld=0.0")
    pushed = [(row.peer, row.remote, row.message) for row in it.pushed()]
    assert 0 < len(pushed) <= 2 * len(dict.fromkeys(pushed))


@pytest.mark.sim
def test_rtt_liars_seem_nearer() -> None:
    it = ran("censor", "at=0.0", "rtt=0.1", "cost=0.0")
    nodes, cast = it.simulation.network.nodes, it.cast
    rtts: dict[bool, list[float]] = {True: [], False: []}
    for node in cast.rings[0].honest:
        of: Any = nodes[node]
        for peer, link in of.topic.membership.active.items():
            if link.rtt is not None:
                rtts[peer in cast].append(link.rtt.mean)
    assert max(rtts[True]) < min(rtts[False]) * 3
    assert sum(rtts[True]) / len(rtts[True]) < 0.3 * sum(rtts[False]) / len(rtts[False])


@pytest.mark.sim
@pytest.mark.parametrize("router", ["episub", "gossipsub"])
def test_part_of_the_messages_is_withheld_by_all_that_know_each_other(router: str) -> None:
    it = ran("censor", "withheld=0.5", router=router)
    after = [m for m, it in enumerate(it.simulation.records.messages) if it.published > 12]
    pushed = {row.message for row in it.pushed() if row.message in after}
    assert 0 < len(pushed) < len(after)
    apart = ran("censor", "withheld=0.5", "knows=nobody", router=router)
    assert len({row.message for row in apart.pushed()}) > len(pushed)


@pytest.mark.sim
@pytest.mark.parametrize("router", ["episub", "gossipsub"])
def test_payloads_leave_late(router: str) -> None:
    late, soon = (
        ran("censor", "withheld=0.0", f"delay={delay}", "knows=nobody", router=router)
        for delay in (0.7, 0.0)
    )
    first = [min(row.time for row in it.pushed() if row.message == 10) for it in (late, soon)]
    assert first[0] > first[1] + 0.6e9
    assert hostile_parents(late) < hostile_parents(soon)


@pytest.mark.sim
def test_their_pieces_wait_in_the_lane_of_pieces() -> None:
    """Who withholds nothing is to its honest neighbours as an honest member is."""
    arrived = []
    for adversaries in ([], [{"kind": "censor", "withheld": 0.0, "count": 6}]):
        large = {"traffic.size": 300_000, "traffic.messages": 6, "network.uplink": 20.0}
        (table,) = loading.parse(SCENARIO.replace("KIND", "censor")).tables(large).values()
        arrived.append(simulated(loading.build({**table, "adversaries": adversaries})))
    honest = arrived[1].cast.rings[0].honest
    of_each = [
        [(m.parent[node], m.delivered[node]) for m in it.records.messages for node in honest]
        for it in arrived
    ]
    assert of_each[0] == of_each[1]


@pytest.mark.sim
def test_they_link_anew_again_and_again() -> None:
    often, never = ran("ihave-liar", "relink=3.0"), plain("ihave-liar")
    ended = [sum(row.event == "onClosedOutboundStream" for row in it.kept) for it in (often, never)]
    assert ended[0] > 6 * 2 + ended[1]
    nodes = often.simulation.network.nodes
    assert any(often.cast.rings[0].members[0] in node.neighbors() for node in nodes.values())


@pytest.mark.sim
def test_made_up_sources_have_trees_and_are_not_measured() -> None:
    it = ran("censor", "count=1", "withheld=0.0", "invents=4")
    (member,) = it.cast.rings[0].members
    made_up = [m for m in it.simulation.records.messages if m.source == member]
    assert len(made_up) == 2 * (24.5 - 12.0) + 1
    node: Any = it.simulation.network.nodes[it.cast.rings[0].honest[0]]
    assert sum(source >= INVENTED for source in node.topic.broadcast.trees) == 4
    summary = it.summary()
    assert len(summary["messages"]["published"]) == 20
    assert summary["phases"][0]["messages"] == 20


@pytest.mark.sim
def test_claims_of_hops_and_cost_are_those_that_are_set() -> None:
    it = ran("censor", "at=0.0", "withheld=0.0", "hops=7", "cost=0.5")
    hops = {row.hops for row in it.pushed()} | {
        n for r in it.said("IHAVE") for n in r.announced or ()
    }
    assert hops == {7}
    of: Any = it.simulation.network.nodes[it.cast.rings[0].members[0]]
    assert of.claim(TreeRoot(3, 9, 0.2)) == TreeRoot(3, 9, 0.1)


def test_ids_that_were_searched_for_are_next_to_the_victim() -> None:
    made = scenario("greedy", "victims=1", "ground=true", "count=4")
    simulation = simulation_of(made)
    (ring,) = simulation.cast.rings
    (victim,) = ring.victims
    others = [node for node in ring.honest if node != victim]
    beside = Places(TOPIC_NAME, 2).next_to(victim, [*others, *ring.members])
    assert set(beside) <= {*ring.members, *simulation.sources, 0, 1, 2}


@pytest.mark.sim
def test_in_gossipsub_the_greedy_graft_themselves_to_all() -> None:
    it = plain("greedy", "gossipsub")
    assert {row.remote for row in it.said("GRAFT")} >= set(it.cast.rings[0].honest)
    assert not it.pushed()


def test_members_share_prefixes_in_turn() -> None:
    cast = simulation_of(scenario("greedy", "prefixes=2")).cast
    groups = [cast.prefixes()[node] for node in cast.rings[0].members]
    assert groups == [(0, 0), (0, 1)] * 3


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (["adversaries.0.kind=spy"], "allowed: censor, covert-flash"),
        (["router.kind=floodsub"], "adversaries[0].kind = 'censor'; allowed with floodsub: none"),
        (["traffic.source=random"], "adversaries need honest, fixed sources, not 'random'"),
        (["router.kind=gossipsub", "adversaries.0.kind=hijack"], "allowed with gossipsub: censor,"),
        (["adversaries.0.share=1.0"], "adversaries[0].share = 1.0; must be more than 0 and at"),
    ],
)
def test_what_cannot_be_is_refused(settings: list[str], complaint: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        loading.parse(SCENARIO.replace("KIND", "censor")).scenarios(
            loading.parse_settings(settings)
        )
    assert complaint in str(refused.value)


def look(time: float, *eclipsed: int, fewest: int = 0) -> Look:
    return Look(time, 0.2, 4, 20, 10, fewest, -1, eclipsed)


def test_an_eclipse_lasts_from_the_first_look_without_an_honest_link_to_the_next_with_one() -> None:
    looks = [look(0.0, 7), look(1.0, 7, 8), look(2.0, 8), look(3.0, 7, 8)]
    assert sorted(eclipse.eclipses(looks)) == [1.0, 2.0, 3.0]
    figures = eclipse.figures(looks)
    assert figures["eclipsed"] == 2
    assert figures["eclipsed_longest"] == 3.0
    assert figures["honest_links_mean"] == 2.5
    assert figures["hostile_share_of_links"] == 0.5
    assert figures["hostile_share_over_fair"] == 2.5
    assert "victims_honest_links_fewest" not in figures


def test_a_node_is_eclipsed_for_long_after_a_minute() -> None:
    looks = [look(float(second), 7) for second in range(62)]
    assert eclipse.figures(looks)["eclipsed_long"] == 1
    assert eclipse.figures(looks[:60])["eclipsed_long"] == 0
