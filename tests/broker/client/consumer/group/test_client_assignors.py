"""The assignors of classic groups: Kafka's examples, kafka-python's results, and properties for any group."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from broker.client.consumer.group.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    LastAssignment,
    MemberSubscription,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from broker.client.consumer.group.assignors.assignor import TopicRacks
from broker.client.consumer.group.assignors.claims import Claim, settle_claims
from broker.client.consumer.group.classic.messages import check_cooperative
from broker.client.types import TopicPartition

Assigned = Mapping[str, Sequence[TopicPartition]]
ALL: tuple[Assignor, ...] = (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
STICKY: tuple[Assignor, ...] = (StickyAssignor(), CooperativeStickyAssignor())


def topics_of(**counts: int) -> dict[str, list[frozenset[str]]]:
    return {name: [frozenset[str]()] * count for name, count in counts.items()}


def reads(*names: str, rack: str | None = None, instance_id: str | None = None) -> MemberSubscription:
    return MemberSubscription(topics=names, rack=rack, instance_id=instance_id)


def replicas(*racks: str) -> list[frozenset[str]]:
    """The racks of each partition's replicas: "01" are r0 and r1."""
    return [frozenset(f"r{digit}" for digit in each) for each in racks]


def short(assigned: Assigned) -> dict[str, str]:
    """Each member's partitions as text, sorted: "a0 a1 b0"."""
    return {member: " ".join(f"{topic}{index}" for topic, index in sorted(each)) for member, each in assigned.items()}


def again(
    assignor: Assignor, members: Mapping[str, MemberSubscription], assigned: Assigned, generation: int
) -> dict[str, MemberSubscription]:
    """The members' subscriptions when they join the next generation."""
    return {
        member: attrs.evolve(
            subscription,
            owned=tuple(assigned.get(member, ())) if assignor.is_cooperative else (),
            generation=generation if member in assigned else -1,
            user_data=assignor.user_data(LastAssignment(assigned[member], generation) if member in assigned else None),
        )
        for member, subscription in members.items()
    }


# Examples


def test_range_gives_neighbours_and_one_more_to_the_first() -> None:
    assigned = RangeAssignor().assign(topics_of(a=3, b=3), {"c1": reads("a", "b"), "c2": reads("a", "b")})
    assert short(assigned) == {"c1": "a0 a1 b0 b1", "c2": "a2 b2"}


def test_range_orders_static_members_by_instance_id_kip_345() -> None:
    members = {"z": reads("a", instance_id="1"), "y": reads("a", instance_id="2"), "x": reads("a")}
    assert short(RangeAssignor().assign(topics_of(a=3), members)) == {"z": "a0", "y": "a1", "x": "a2"}


def test_round_robin_passes_over_members_that_do_not_read_a_topic() -> None:
    members = {"c0": reads("a"), "c1": reads("a", "b"), "c2": reads("a", "b", "c")}
    assigned = RoundRobinAssignor().assign(topics_of(a=1, b=2, c=3), members)
    assert short(assigned) == {"c0": "a0", "c1": "b0", "c2": "b1 c0 c1 c2"}


def test_sticky_balances_where_round_robin_cannot_kip_54() -> None:
    members = {"c0": reads("a"), "c1": reads("a", "b"), "c2": reads("a", "b", "c")}
    assigned = StickyAssignor().assign(topics_of(a=1, b=2, c=3), members)
    assert short(assigned) == {"c0": "a0", "c1": "b0 b1", "c2": "c0 c1 c2"}


def test_sticky_keeps_owned_partitions_when_a_member_leaves_kip_54() -> None:
    members = {each: reads("a", "b", "c", "d") for each in ("c0", "c1", "c2")}
    assignor = StickyAssignor()
    first = assignor.assign(topics_of(a=2, b=2, c=2, d=2), members)
    assert short(first) == {"c0": "a0 b1 d0", "c1": "a1 c0 d1", "c2": "b0 c1"}
    left = again(assignor, {each: members[each] for each in ("c0", "c2")}, first, 1)
    assert short(assignor.assign(topics_of(a=2, b=2, c=2, d=2), left)) == {"c0": "a0 a1 b1 d0", "c2": "b0 c0 c1 d1"}


def test_range_assigns_near_replicas_kip_881() -> None:
    racks = {"a": [frozenset({"r1"}), frozenset({"r2"}), frozenset({"r3"})]}
    members = {"c1": reads("a", rack="r3"), "c2": reads("a", rack="r2"), "c3": reads("a", rack="r1")}
    assert short(RangeAssignor().assign(racks, members)) == {"c1": "a2", "c2": "a1", "c3": "a0"}


def test_range_keeps_copartitioning_over_racks_kip_881() -> None:
    near_r1, near_r2 = frozenset({"r1"}), frozenset({"r2"})
    racks = {"a": [near_r2, near_r1], "b": [near_r2, near_r1]}
    members = {"c1": reads("a", "b", rack="r1"), "c2": reads("a", "b", rack="r2")}
    assert short(RangeAssignor().assign(racks, members)) == {"c1": "a1 b1", "c2": "a0 b0"}
    split = {"a": [near_r2, near_r1], "b": [near_r1, near_r2]}
    assert short(RangeAssignor().assign(split, members)) == {"c1": "a0 b0", "c2": "a1 b1"}


@pytest.mark.parametrize("assignor", STICKY)
def test_sticky_assigns_near_replicas_kip_881(assignor: Assignor) -> None:
    racks = {"a": [frozenset({f"r{index % 2}"}) for index in range(6)]}
    members = {"c0": reads("a", rack="r1"), "c1": reads("a", rack="r0"), "c2": reads("a")}
    assigned = assignor.assign(racks, members)
    assert all(index % 2 == 1 for _, index in assigned["c0"])
    assert all(index % 2 == 0 for _, index in assigned["c1"])
    assert [len(each) for each in assigned.values()] == [2, 2, 2]


def test_racks_are_ignored_where_every_rack_has_a_replica_kip_881() -> None:
    racks = {"a": [frozenset({"r1", "r2"})] * 4}
    members = {"c1": reads("a", rack="r2"), "c2": reads("a", rack="r1")}
    assert short(RangeAssignor().assign(racks, members)) == {"c1": "a0 a1", "c2": "a2 a3"}


def test_cooperative_sticky_withholds_a_partition_until_it_is_revoked_kip_429() -> None:
    assignor = CooperativeStickyAssignor()
    topics = topics_of(a=4)
    alone = assignor.assign(topics, {"c1": reads("a")})
    members = again(assignor, {"c1": reads("a"), "c2": reads("a")}, alone, 1)
    first = assignor.assign(topics, members)
    assert short(first) == {"c1": "a0 a1", "c2": ""}
    assert short(assignor.assign(topics, again(assignor, members, first, 2))) == {"c1": "a0 a1", "c2": "a2 a3"}


def test_cooperative_sticky_believes_the_member_of_the_latest_generation() -> None:
    members = {
        "c1": attrs.evolve(reads("a"), owned=(TopicPartition("a", 0),), generation=3),
        "c2": attrs.evolve(reads("a"), owned=(TopicPartition("a", 0), TopicPartition("a", 1)), generation=5),
    }
    assert short(CooperativeStickyAssignor().assign(topics_of(a=2), members)) == {"c1": "", "c2": "a0"}


def test_former_owner_is_the_last_one_before_the_latest_generation() -> None:
    a0, a1, a2 = (TopicPartition("a", index) for index in range(3))
    claims = {"c1": Claim([a0], 5), "c2": Claim([a0, a1], 3), "c3": Claim([a2, a1, a0], 2), "new": Claim([])}
    settled = settle_claims(topics_of(a=3), {member: reads("a") for member in claims}, claims)
    assert settled.owners == {a0: "c1", a1: "c2", a2: "c3"}
    assert settled.former == {a0: "c2", a1: "c2", a2: "c3"}


def test_sticky_returns_a_partition_to_its_former_owner() -> None:
    """A member that missed a rebalance takes back what another one got meanwhile."""
    assignor, a = StickyAssignor(), [TopicPartition("a", index) for index in range(3)]
    readers = {member: reads("a") for member in ("c1", "c2", "c3")}
    members = again(assignor, readers, {"c1": a}, 5) | again(assignor, {"c3": reads("a")}, {"c3": a[:1]}, 4)
    members["c4"] = reads("b")
    assigned = assignor.assign(topics_of(a=3, b=1), members)
    assert short(assigned) == {"c1": "a2", "c2": "a1", "c3": "a0", "c4": "b0"}


def test_cooperative_sticky_withholds_a_partition_that_two_members_claim() -> None:
    claimed = attrs.evolve(reads("a"), owned=(TopicPartition("a", 0),), generation=3)
    assigned = CooperativeStickyAssignor().assign(topics_of(a=1), {"c1": claimed, "c2": claimed})
    assert short(assigned) == {"c1": "", "c2": ""}


def test_cooperative_sticky_reads_the_generation_of_version_1_from_the_user_data() -> None:
    members = {
        "c1": attrs.evolve(reads("a"), owned=(TopicPartition("a", 0),), user_data=b"\0\0\0\3"),
        "c2": attrs.evolve(reads("a"), owned=(TopicPartition("a", 0),), generation=5),
    }
    assert short(CooperativeStickyAssignor().assign(topics_of(a=1), members)) == {"c1": "", "c2": "a0"}


@pytest.mark.parametrize("garbage", [b"", b"\0", b"\x7f\xff\xff\xff", b"\0\0\0\1\xff\xff"])
@pytest.mark.parametrize("assignor", STICKY)
def test_unreadable_user_data_counts_as_none(assignor: Assignor, garbage: bytes) -> None:
    members = {"c1": attrs.evolve(reads("a"), user_data=garbage), "c2": reads("a")}
    assert short(assignor.assign(topics_of(a=2), members)) == {"c1": "a0", "c2": "a1"}


def test_sticky_reads_user_data_without_a_generation() -> None:
    assignor = StickyAssignor()
    encoded = assignor.user_data(LastAssignment([TopicPartition("a", 1)], 7))
    assert encoded is not None
    members = {"c1": attrs.evolve(reads("a"), user_data=encoded[:-4]), "c2": reads("a")}
    assert short(assignor.assign(topics_of(a=2), members)) == {"c1": "a1", "c2": "a0"}


@pytest.mark.parametrize("assignor", ALL)
def test_a_topic_that_does_not_exist_is_left_out(assignor: Assignor) -> None:
    assert short(assignor.assign(topics_of(a=1), {"c1": reads("a", "gone"), "c2": reads("gone")})) == {
        "c1": "a0",
        "c2": "",
    }


# Assignments of kafka-python


@attrs.frozen
class KafkaPythonCluster:
    counts: Mapping[str, int]

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self.counts[topic])) if topic in self.counts else None


@attrs.frozen
class KafkaPythonMetadata:
    topics: Sequence[str]


@attrs.frozen
class KafkaPythonMember:
    member_id: str
    metadata: KafkaPythonMetadata
    group_instance_id: str | None = None


NAMES = ("a", "b", "c", "d")
COUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 9), min_size=1)
MEMBERS = st.dictionaries(
    st.text("mnop", min_size=1, max_size=3),
    st.lists(st.sampled_from(NAMES), unique=True, min_size=1).map(lambda names: reads(*names)),
    min_size=1,
    max_size=6,
)


@given(COUNTS, MEMBERS)
def test_range_and_round_robin_agree_with_kafka_python(
    counts: dict[str, int], members: dict[str, MemberSubscription]
) -> None:
    theirs = [KafkaPythonMember(member, KafkaPythonMetadata(list(each.topics))) for member, each in members.items()]
    pairs: list[tuple[Assignor, Any]] = [(RangeAssignor(), RangePartitionAssignor)]
    if len({frozenset(each.topics) for each in members.values()}) == 1:  # kafka-python fails with a KeyError otherwise
        pairs.append((RoundRobinAssignor(), RoundRobinPartitionAssignor))
    for ours, other in pairs:
        assigned = ours.assign(topics_of(**counts), members)
        expected = {
            member: {(topic, index) for topic, indexes in each.assigned_partitions for index in indexes}
            for member, each in other.assign(KafkaPythonCluster(counts), theirs).items()
        }
        assert {member: set(each) for member, each in assigned.items()} == expected


# Properties of any group

RACKS = st.frozensets(st.sampled_from(["r0", "r1", "r2"]), max_size=2)
TOPICS = st.dictionaries(st.sampled_from(NAMES), st.lists(RACKS, min_size=1, max_size=8), min_size=1)
RACKED = st.dictionaries(
    st.text("mnop", min_size=1, max_size=3),
    st.builds(
        lambda names, rack: reads(*names, rack=rack),
        st.lists(st.sampled_from(NAMES), unique=True, min_size=1),
        st.sampled_from([None, "r0", "r1", "r2"]),
    ),
    min_size=1,
    max_size=6,
)


def wanted(topics: TopicRacks, members: Mapping[str, MemberSubscription]) -> list[TopicPartition]:
    read = {name for each in members.values() for name in each.topics}
    return [TopicPartition(name, index) for name in sorted(read & set(topics)) for index in range(len(topics[name]))]


def is_balanced(members: Mapping[str, MemberSubscription], assigned: Assigned) -> bool:
    """True if no partition can move to a member that has at least two less than its owner."""
    return not any(
        len(partitions) > len(assigned[other]) + 1 and partition.topic in members[other].topics
        for partitions in assigned.values()
        for partition in partitions
        for other in members
    )


@pytest.mark.parametrize("assignor", ALL)
@given(topics=TOPICS, members=RACKED)
def test_every_partition_goes_to_one_reader(
    assignor: Assignor, topics: TopicRacks, members: dict[str, MemberSubscription]
) -> None:
    assigned = assignor.assign(topics, members)
    assert set(assigned) == set(members)
    assert sorted(partition for each in assigned.values() for partition in each) == wanted(topics, members)
    assert all(each.topic in members[member].topics for member, given in assigned.items() for each in given)


@given(TOPICS, RACKED)
def test_sticky_assignments_are_balanced_and_do_not_change_by_themselves(
    topics: TopicRacks, members: dict[str, MemberSubscription]
) -> None:
    assignor = StickyAssignor()
    assigned = assignor.assign(topics, members)
    assert is_balanced(members, assigned)
    if len({frozenset(each.topics) & set(topics) for each in members.values()}) == 1:
        counts = [len(each) for each in assigned.values()]
        assert max(counts) - min(counts) <= 1
    if all(each.rack is None for each in members.values()):
        assert short(assignor.assign(topics, again(assignor, members, assigned, 1))) == short(assigned)


@given(TOPICS, st.integers(2, 6))
def test_sticky_moves_only_the_partitions_of_a_leaving_member(topics: TopicRacks, count: int) -> None:
    assignor = StickyAssignor()
    members = {f"m{index}": reads(*NAMES) for index in range(count)}
    assigned = assignor.assign(topics, members)
    _, *stay = members
    later = assignor.assign(topics, again(assignor, {member: members[member] for member in stay}, assigned, 1))
    assert all(set(assigned[member]) <= set(later[member]) for member in stay)
    joined = assignor.assign(topics, again(assignor, members, later, 2))
    assert all(set(joined[member]) <= set(later[member]) for member in stay)


@given(st.lists(st.tuples(TOPICS, RACKED), min_size=2, max_size=4))
@example(
    [
        (
            {"a": replicas("", "", "0", "01", "1"), "b": replicas("0"), "c": replicas("1", "01", "1", "1")},
            {"mmm": reads("a", "b", "c", rack="r2")},
        ),
        (
            {
                "a": replicas("1", "2", "", "1", "12", "12", "0"),
                "b": replicas("02", "01", "0", "1", ""),
                "c": replicas("12", "2", "", "2"),
            },
            {
                "m": reads("a", rack="r2"),
                "mmm": reads("a", "c", rack="r2"),
                "n": reads("c", rack="r0"),
                "nn": reads("b", "c", rack="r2"),
            },
        ),
    ]
)
def test_cooperative_sticky_never_gives_a_partition_before_it_is_revoked_kip_429(
    cases: list[tuple[dict[str, list[frozenset[str]]], dict[str, MemberSubscription]]],
) -> None:
    """After each change of the group, members join again as long as one of them has had to revoke partitions.

    Six rounds were the most in 120,000 random groups with racks. With the example, rounds once went on for ever.
    """
    assignor = CooperativeStickyAssignor()
    owned: dict[str, list[TopicPartition]] = {}
    generation = 0
    for topics, members in cases:
        owned = {
            member: [each for each in partitions if each.topic in members[member].topics]
            for member, partitions in owned.items()
            if member in members
        }
        for _ in range(10):
            joining = again(assignor, members, owned, generation)
            assigned = assignor.assign(topics, joining)
            check_cooperative(joining, assigned)
            has_revoked = any(set(owned.get(member, ())) - set(each) for member, each in assigned.items())
            owned = {member: list(each) for member, each in assigned.items()}
            generation += 1
            if not has_revoked:
                break
        assert not has_revoked
        assert sorted(each for partitions in owned.values() for each in partitions) == wanted(topics, members)
        assert is_balanced(members, owned)


@given(TOPICS, RACKED, st.data())
def test_sticky_survives_any_claims(
    topics: TopicRacks, members: dict[str, MemberSubscription], data: st.DataObject
) -> None:
    """Including claims of partitions that do not exist, and of the same ones by several members."""
    claims = st.lists(st.builds(TopicPartition, st.sampled_from(NAMES), st.integers(-1, 9)), max_size=8)
    claiming = {
        member: attrs.evolve(each, owned=tuple(data.draw(claims)), generation=data.draw(st.integers(-1, 2)))
        for member, each in members.items()
    }
    assigned = CooperativeStickyAssignor().assign(topics, claiming)
    given_away = Counter(partition for each in assigned.values() for partition in each)
    assert set(given_away) <= set(wanted(topics, members))
    assert all(count == 1 for count in given_away.values())


def test_sticky_assigns_to_a_large_group() -> None:
    """Members read different topics, the general case. The test checks the result, and that it is computed soon."""
    topics = topics_of(**{f"t{index}": 10 for index in range(60)})
    names = list(topics)
    members = {f"m{index:03}": reads(*names[index % 3 :: 3], names[index % 60]) for index in range(100)}
    assigned = StickyAssignor().assign(topics, members)
    assert is_balanced(members, assigned)
    counts = sorted(len(each) for each in assigned.values())
    assert all(later - before <= 1 for before, later in pairwise(counts))
