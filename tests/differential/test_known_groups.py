"""The known differences of groups cover the situations that they name, and no others."""

from typing import Any

from tests.differential.execution import Outcome
from tests.differential.families.groups.administration_steps import DescribeGroups, ListGroups
from tests.differential.families.groups.classic_steps import Join, Sync
from tests.differential.families.groups.offset_steps import Commit
from tests.differential.known_differences import KNOWN_DIFFERENCES, first_difference

FAMILY = "classic-groups"
KNOWN = [each for each in KNOWN_DIFFERENCES if each.family == FAMILY]


def is_known(earlier: list[Outcome], kafka: Outcome, ours: Outcome) -> bool:
    return first_difference(FAMILY, [*earlier, kafka], [*earlier, ours], KNOWN, [0] * len(KNOWN)) is None


def joined(generation: int, leader: str, members: list[str]) -> Outcome:
    value = {"error_code": "NONE", "generation_id": generation, "leader": leader, "members": members}
    return Outcome(Join(member=0, version=7), value)


def committed(code: str) -> Outcome:
    partitions = [{"partition_index": 0, "error_code": code}]
    return Outcome(
        Commit(member=0, version=9, offset=1, partitions=(("t", 0),)), {"topics": [{"partitions": partitions}]}
    )


def described(**group: Any) -> Outcome:
    return Outcome(DescribeGroups(version=6), {"groups": [group]})


def listed(*groups: Any) -> Outcome:
    return Outcome(ListGroups(version=5), {"groups": list(groups)})


def test_leader_that_joined_again_is_the_same_on_both() -> None:
    first = joined(1, "M0", ["M0"])
    assert is_known([first], joined(2, "M2", []), joined(2, "M1", ["M1", "M2"]))
    assert not is_known([first], joined(2, "M2", []), joined(2, "M0", ["M0", "M2"]))
    assert not is_known([first], joined(2, "M0", []), joined(2, "M1", ["M1", "M0"]))
    assert not is_known([], joined(1, "M2", []), joined(1, "M1", ["M1"]))


def test_group_of_a_refused_commit_is_described_and_listed_by_kafka_after_its_first_record() -> None:
    kafka = described(error_code="GROUP_ID_NOT_FOUND", group_state="Dead", protocol_type="", members=[])
    ours = described(error_code="NONE", group_state="CompletingRebalance", protocol_type="consumer", members=["M0"])
    refused, first = committed("OFFSET_METADATA_TOO_LARGE"), joined(1, "M0", ["M0"])
    synced = Outcome(Sync(member=0, version=5), {"error_code": "NONE"})
    assert is_known([refused, first], kafka, ours)
    joining, stable = ({"group_id": "g", "group_state": state} for state in ("CompletingRebalance", "Stable"))
    assert is_known([refused, first], listed(), listed(joining))
    assert not is_known([refused, first], listed(), listed(stable))
    assert not is_known([refused, first], listed(joining), listed())
    assert not is_known([refused, first, synced], listed(), listed(joining))
    assert not is_known([refused, first, synced], kafka, ours)
    assert not is_known([committed("NONE"), first], kafka, ours)
    assert not is_known([first], kafka, ours)
    assert not is_known([refused, first], ours, kafka)
