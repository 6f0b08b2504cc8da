"""The differential harness itself, without a server."""

from collections.abc import Sequence
from random import Random

import attrs
import pytest

from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from broker.wire.api.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from broker.wire.api.describe_transactions import DescribeTransactionsResponse, TransactionState
from broker.wire.api.fetch import AbortedTransaction, PartitionData
from broker.wire.api.init_producer_id import InitProducerIdResponse
from broker.wire.api.join_group import JoinGroupResponse
from broker.wire.errors import ErrorCode
from broker.wire.records import Record, encode_batch
from tests.differential.comparable import Labels, brief, comparable, differing_paths
from tests.differential.execution import WAITING, Outcome, Transcript
from tests.differential.families import FAMILIES
from tests.differential.families.groups.administration_steps import DeleteGroups
from tests.differential.families.groups.classic_steps import Heartbeat
from tests.differential.families.groups.consumer_steps import ConsumerHeartbeat
from tests.differential.families.groups.members import Members
from tests.differential.families.groups.mixed_steps import MixedHeartbeat, MixedJoin
from tests.differential.known_differences import KNOWN_DIFFERENCES, KnownDifference, first_difference
from tests.differential.sequences import Place, Step
from tests.differential.shrinking import selected, shrink


@attrs.frozen(kw_only=True)
class Number(Step):
    value: int


def numbers(*values: int) -> list[Step]:
    return [Number(value=each, is_paused=False) for each in values]


def values(steps: Sequence[Step]) -> list[int]:
    return [each.value for each in steps if isinstance(each, Number)]


# Comparison


def test_ids_get_labels_in_the_order_in_which_they_appear() -> None:
    labels = Labels()
    first, second = (
        comparable(InitProducerIdResponse(producer_id=each, producer_epoch=3), labels) for each in (871, 4)
    )
    again = comparable(InitProducerIdResponse(producer_id=871, producer_epoch=4, error_code=90), labels)
    assert (first["producer_id"], second["producer_id"], again["producer_id"]) == ("P0", "P1", "P0")
    assert (again["error_code"], again["producer_epoch"]) == ("PRODUCER_FENCED", 4)
    assert comparable(InitProducerIdResponse(producer_id=-1), labels)["producer_id"] == -1


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP])
def test_epochs_of_a_group_get_labels_of_their_own_after_the_group_was_deleted(code: ErrorCode) -> None:
    place = Place("s", {}, Members())
    heartbeat, delete = ConsumerHeartbeat(member=0), DeleteGroups(version=2)
    answer = ConsumerGroupHeartbeatResponse(member_epoch=3)
    assert heartbeat.comparable(place, answer)["member_epoch"] == "E0"
    delete.comparable(place, DeleteGroupsResponse(results=[DeletableGroupResult(group_id="s-g", error_code=code)]))
    answer.member_epoch = 2
    expected = "E1" if code is ErrorCode.NON_EMPTY_GROUP else "E0"
    assert heartbeat.comparable(place, answer)["member_epoch"] == expected


def test_ids_get_labels_in_the_order_of_the_steps_if_responses_arrive_in_another_one() -> None:
    transcript = Transcript(Place("s", {}, Members()))
    join, heartbeat = MixedJoin(member=0, version=9, protocols=()), MixedHeartbeat(member=2, epoch=0)
    joining, beating = transcript.begin(join, WAITING), transcript.begin(heartbeat, WAITING)
    transcript.add_response(beating, ConsumerGroupHeartbeatResponse(member_id="c", member_epoch=2))
    transcript.compare([joining])
    assert (joining.value, beating.value) == (WAITING, WAITING)
    transcript.add_response(joining, JoinGroupResponse(generation_id=1, member_id="m"))
    transcript.compare()
    assert (joining.value["generation_id"], beating.value["member_epoch"]) == ("E0", "E1")
    assert (joining.value["member_id"], beating.value["member_id"]) == ("M0", "M1")


def test_step_without_a_response_does_not_keep_later_ones_from_being_compared() -> None:
    transcript = Transcript(Place("s", {}, Members()))
    steps = [transcript.begin(MixedHeartbeat(member=at), WAITING) for at in range(2)]
    transcript.add_response(steps[1], ConsumerGroupHeartbeatResponse(member_epoch=2))
    transcript.compare()
    assert (steps[0].value, steps[1].value["member_epoch"]) == (WAITING, "E0")


def test_times_of_the_clock_and_the_order_of_lists_are_not_compared() -> None:
    def described(times: Sequence[int]) -> object:
        states = [TransactionState(transactional_id=str(each), transaction_start_time_ms=each) for each in times]
        for state in states:
            state.transactional_id = state.transactional_id[-1]
        return comparable(DescribeTransactionsResponse(transaction_states=states), Labels())

    assert described([1_800_000_000_001, 1_800_000_000_002]) == described([1_900_000_000_002, 1_900_000_000_001])
    assert described([-1]) != described([1_900_000_000_001])


def test_aborted_transactions_are_compared_among_the_records_up_to_the_last_stable_offset() -> None:
    records = encode_batch([Record(timestamp=1, key=None, value=b"value")])

    def listed(*first_offsets: int, records: bytes = records) -> object:
        aborted = [AbortedTransaction(producer_id=5, first_offset=each) for each in first_offsets]
        data = PartitionData(last_stable_offset=7, aborted_transactions=aborted, records=records)
        return comparable(data, Labels())

    assert listed(3, 7, 9) == listed(3)
    assert listed(7) == listed()
    assert listed(3, 6) != listed(3)
    assert listed(3, records=b"") == listed(records=b"")


def test_differing_paths_name_the_innermost_places() -> None:
    one = {"topics": [{"name": "a", "code": "NONE"}, {"name": "b", "code": "NONE"}], "rest": []}
    other = {"topics": [{"name": "a", "code": "NONE"}, {"name": "b", "code": "OTHER"}], "rest": [1]}
    assert differing_paths(one, other) == [("topics[1].code", "NONE", "OTHER"), ("rest", [], [1])]
    assert differing_paths(one, one) == []
    assert brief(other) == "{topics=[{name=a} {name=b code=OTHER}] rest=[1]}"


# Known differences


def outcomes(*codes: str) -> list[Outcome]:
    return [Outcome(Number(value=at), {"error_code": code}) for at, code in enumerate(codes)]


def entry(**fields: object) -> KnownDifference:
    values = {"family": "f", "step": "Number", "path": "error_code", "kafka": "A", "ours": ("B", "C"), "reason": "r"}
    return KnownDifference(**(values | fields))  # type: ignore[arg-type]


def test_first_difference_passes_over_known_ones_and_counts_them() -> None:
    used = [0]
    found = first_difference("f", outcomes("A", "A", "X"), outcomes("B", "C", "Y"), [entry()], used)
    assert found is not None
    assert (found.index, used) == (2, [2])
    assert "X" in found.kind


@pytest.mark.parametrize(
    "fields",
    [
        {"family": "g"},
        {"step": "Other"},
        {"path": "other"},
        {"kafka": "Z"},
        {"ours": "A"},
        {"where": lambda step: step.value > 0},
        {"when": lambda situation: situation.error_codes != ("A", "B")},
        {"when": lambda situation: bool(situation.earlier)},
    ],
)
def test_known_difference_is_narrow(fields: dict[str, object]) -> None:
    assert first_difference("f", outcomes("A"), outcomes("B"), [entry(**fields)], [0]) is not None


def test_known_difference_may_depend_on_earlier_steps() -> None:
    known = [entry(when=lambda situation: [each.step.value for each in situation.earlier] == [0])]
    assert first_difference("f", outcomes("X", "A"), outcomes("X", "B"), known, [0]) is None
    assert first_difference("f", outcomes("X", "X", "A"), outcomes("X", "X", "B"), known, [0]) is not None


def mixed(*steps: tuple[Step, object]) -> list[Outcome]:
    return [Outcome(step, value) for step, value in steps]


@pytest.mark.parametrize("is_left", [True, False])
def test_classic_member_may_be_told_sooner_to_rejoin_after_another_has_left(is_left: bool) -> None:
    joined: tuple[Step, object] = (
        MixedHeartbeat(member=2, epoch=0),
        {"error_code": "NONE", "member_id": "M0", "member_epoch": "E0"},
    )
    left: tuple[Step, object] = (MixedHeartbeat(member=3, epoch=-1), {"error_code": "NONE", "member_epoch": -1})
    earlier = [joined, left] if is_left else [left, joined]
    heartbeat = Heartbeat(member=0, version=4)
    kafka = mixed(*earlier, (heartbeat, {"error_code": "NONE"}))
    ours = mixed(*earlier, (heartbeat, {"error_code": "REBALANCE_IN_PROGRESS"}))
    found = first_difference("mixed-groups", kafka, ours, KNOWN_DIFFERENCES, [0] * len(KNOWN_DIFFERENCES))
    assert (found is None) == is_left


@pytest.mark.parametrize(("version", "second"), [(0, "M1"), (0, "M0"), (1, "M1")])
def test_assignment_may_differ_among_several_members_whose_ids_the_coordinator_made(version: int, second: str) -> None:
    joins: list[tuple[Step, object]] = [
        (
            ConsumerHeartbeat(member=0, version=version, epoch=0),
            {"error_code": "NONE", "member_id": member_id, "member_epoch": "E0"},
        )
        for member_id in ("M0", second)
    ]
    heartbeat = ConsumerHeartbeat(member=0, version=version)
    kafka, ours = (
        mixed(*joins, (heartbeat, {"assignment": {"topic_partitions": [{"topic_id": "T0", "partitions": [each]}]}}))
        for each in (0, 1)
    )
    found = first_difference("consumer-groups", kafka, ours, KNOWN_DIFFERENCES, [0] * len(KNOWN_DIFFERENCES))
    assert (found is None) == (version == 0 and second == "M1")


def test_sequence_is_not_compared_after_a_known_difference_that_diverges() -> None:
    known = [entry(diverges=True)]
    assert first_difference("f", outcomes("A", "X"), outcomes("B", "Y"), known, [0]) is None
    assert first_difference("f", outcomes("X", "A"), outcomes("Y", "B"), known, [0]) is not None


def test_known_differences_have_families_and_reasons() -> None:
    for each in KNOWN_DIFFERENCES:
        assert each.family in FAMILIES
        assert len(each.reason) > 20


# Shrinking


async def test_shrinking_keeps_the_steps_that_matter_and_pauses_before_them() -> None:
    steps = numbers(*range(20))

    async def fails(tried: Sequence[Step]) -> bool:
        return {3, 11, 12} <= set(values(tried))

    shrunk = await shrink(steps, fails)
    minimal = selected(steps, shrunk)
    assert values(minimal) == [3, 11, 12]
    assert all(each.is_paused for each in minimal)


async def test_shrinking_leaves_out_pauses_that_hide_the_difference() -> None:
    async def fails(tried: Sequence[Step]) -> bool:
        return 5 in values(tried) and not any(each.is_paused for each in tried)

    steps = numbers(*range(8))
    shrunk = await shrink(steps, fails)
    assert [str(each) for each in selected(steps, shrunk)] == ["Number(value=5) at once"]


# Families


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_sequence_of_a_seed_is_always_the_same(family: object) -> None:
    generate = FAMILIES[family.name].generate  # type: ignore[attr-defined]
    drawn = [[str(each) for each in generate(Random(f"{seed}"))] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
