"""Rules of group coordinators: each scenario passes, and fails if the rule is taken out."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext

import pytest

from broker.wire.errors import ErrorCode
from jepsen.workloads.group_classic import ClassicMember
from jepsen.workloads.group_consumer import ConsumerMember
from tests.simulation.scripted_groups import ScriptedGroups, play
from tests.support.group_bugs import GROUP_BUGS

REGRESS = "CommittedOffsetsNeverRegress"
OLD = "OldGenerationsCommitNothing"


async def nothing_is_acknowledged_that_only_the_coordinator_has(stage: ScriptedGroups) -> None:
    a, b, c = stage.brokers
    await stage.lay_out()
    assert await stage.commit(a, 5) is ErrorCode.NONE
    stage.part(a, b, c, stage.controller)
    await stage.commit(a, 10)
    await stage.coordinates(b)
    await stage.told(b)


async def what_cannot_be_written_has_not_happened(stage: ScriptedGroups) -> None:
    a, b, c = stage.brokers
    await stage.lay_out()
    assert await stage.commit(a, 5) is ErrorCode.NONE
    stage.kill(b)
    stage.kill(c)
    await stage.in_sync(a)
    await stage.commit(a, 10)
    await stage.told(a)
    await stage.start(b, c)
    await stage.in_sync(a, b, c)
    stage.kill(a)
    await stage.coordinates(b)
    await stage.told(b)


async def a_deposed_coordinator_knows_that_it_is_none(stage: ScriptedGroups) -> None:
    """The coordinator learns of its deposition only from the controller, and not from records that its successor
    writes.
    """
    a, b, c = stage.brokers
    await stage.lay_out()
    assert await stage.commit(a, 5) is ErrorCode.NONE
    stage.part(a, b, c, stage.controller)
    await stage.coordinates(b)
    assert await stage.commit(b, 10) is ErrorCode.NONE
    stage.simulation.network.mend(a, stage.controller)
    stage.simulation.network.mend(stage.controller, a)
    await stage.until(
        lambda: any(each.host == a for each in stage.events_by_kind.get("partition_followed", ())), "a leads for ever"
    )
    await stage.told(a)


async def a_member_of_now_commits_nothing_in_its_last_generation(stage: ScriptedGroups) -> None:
    await _commit_late(stage, ClassicMember)


async def a_static_member_that_was_replaced_commits_nothing(stage: ScriptedGroups) -> None:
    coordinator, *_ = stage.brokers
    await stage.lay_out()
    former, successor = (stage.member(ClassicMember, name, "static") for name in ("former", "successor"))
    await stage.takes_part(former, owning=[2])
    await stage.takes_part(successor, owning=[2])
    assert await stage.commit(coordinator, 10, member=successor) is ErrorCode.NONE
    await stage.commit(coordinator, 7, member=former)


async def a_member_commits_nothing_in_its_last_epoch(stage: ScriptedGroups) -> None:
    await _commit_late(stage, ConsumerMember)


async def _commit_late(stage: ScriptedGroups, kind: type[ClassicMember] | type[ConsumerMember]) -> None:
    """A commit of a member's former generation is delayed for long; by then another member owns the partition."""
    coordinator, *_ = stage.brokers
    await stage.lay_out()
    first, second = stage.member(kind, "first"), stage.member(kind, "second")
    await stage.takes_part(first, owning=[2])
    generation = first.generation
    await stage.takes_part(first, second, owning=[1, 1])
    index = next(index for _, index in second.positions)
    assert await stage.commit(coordinator, 10, member=second, index=index) is ErrorCode.NONE
    await stage.commit(coordinator, 7, member=first, generation=generation, index=index)


async def a_partition_is_nobody_else_s_before_it_is_given_up(stage: ScriptedGroups) -> None:
    """One member has not learned of the rebalance; the other one commits everything that it is assigned."""
    coordinator, *_ = stage.brokers
    await stage.lay_out()
    first, second = stage.member(ConsumerMember, "first"), stage.member(ConsumerMember, "second")
    await stage.takes_part(first, owning=[2])
    await stage.takes_part_for(2.0, second)
    for _, index in list(second.positions):
        await stage.commit(coordinator, 10, member=second, index=index)
    for _, index in list(first.positions):
        await stage.commit(coordinator, 7, member=first, index=index)


# Each with the bug that removes its rule, and the promise that is broken then.
SCENARIOS: Mapping[Callable[[ScriptedGroups], Awaitable[None]], tuple[str, str]] = {
    nothing_is_acknowledged_that_only_the_coordinator_has: (
        "responses leave before their records are committed",
        REGRESS,
    ),
    what_cannot_be_written_has_not_happened: ("decisions are replayed before they are appended", REGRESS),
    a_deposed_coordinator_knows_that_it_is_none: ("deposed coordinators are not fenced", REGRESS),
    a_member_of_now_commits_nothing_in_its_last_generation: ("commits of any generation are accepted", OLD),
    a_static_member_that_was_replaced_commits_nothing: (
        "static members are not fenced",
        "ReplacedMembersCommitNothing",
    ),
    a_member_commits_nothing_in_its_last_epoch: ("commits of any member epoch are accepted", OLD),
    a_partition_is_nobody_else_s_before_it_is_given_up: ("partitions are assigned before they are revoked", OLD),
}


@pytest.mark.parametrize("is_broken", [False, True], ids=["as-it-is", "broken"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__.replace("_", "-"))
def test_rules_of_groups(scenario: Callable[[ScriptedGroups], Awaitable[None]], *, is_broken: bool) -> None:
    bug, breach = SCENARIOS[scenario]
    with GROUP_BUGS[bug].planted() if is_broken else nullcontext():
        violation = play(scenario).violation
    assert (violation or "").partition(":")[0] == (breach if is_broken else ""), violation


def test_every_bug_of_groups_is_shown() -> None:
    assert sorted(bug for bug, _ in SCENARIOS.values()) == sorted(GROUP_BUGS)
