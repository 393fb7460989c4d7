"""Members that are killed in the middle of what they do, with their files on."""

from __future__ import annotations

from episub_router.sds.store.sqlite import SqliteStore
from tests.sds.harness import Group, Links


def killed(kills: int, *, seed: int, members: int = 5) -> Group:
    """A group with clocks 5 s apart and 20 % loss, after so many kills.

    Raises AssertionError where a message is lost after `send` returned, or comes twice or before
    what its sender had seen, or the total order contradicts that.
    """
    group = Group(
        members,
        seed=seed,
        links=Links(loss=0.2),
        skew=5.0,
        store=lambda: SqliteStore(":memory:"),
    )
    names = sorted(group.members)
    n = 0
    while group.kills < kills:
        n += 1
        group.send(group.rng.choice(names), b"%d" % n)
        group.run(group.rng.uniform(0.05, 0.6))
        group.doom(group.rng.choice(names))
    for member in group.members.values():
        member.doomed = False
    group.run(5.0)
    assert group.settle(900.0) is not None, "logs differ after 15 quiet minutes"
    group.check()
    for member in group.members.values():
        clocks = [member.participant.log.key(i)[0] for i in member.sent]
        assert clocks == sorted(set(clocks)), f"a clock of {member.name} went back"
        member.store.close()
    return group
