"""Properties of the coordinator's assignors, for random members and topics."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.group.assignors import MemberSpec
from broker.coordinator.group.consumer.member_update import ASSIGNORS
from broker.coordinator.group.partition_sets import PartitionSets, count, intersection

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))
Members = dict[str, MemberSpec]


@st.composite
def groups(draw: st.DrawFn, members_max: int = 6, partitions_max: int = 9) -> tuple[Members, dict[bytes, int]]:
    """Members with subscriptions, and with an earlier assignment from when topics and members were different."""
    counts = {topic: draw(st.integers(1, partitions_max)) for topic in (A, B, C)}
    is_homogeneous = draw(st.booleans())
    everybody = draw(st.lists(st.sampled_from([A, B, C]), min_size=1, unique=True))
    had: dict[str, dict[bytes, set[int]]] = {}
    names = [f"m{number}" for number in range(draw(st.integers(1, members_max)))]
    for topic in (A, B, C):
        for index in range(partitions_max + 1):
            owner = draw(st.sampled_from([None, *names, "gone"]))
            if owner is not None:
                had.setdefault(owner, {}).setdefault(topic, set()).add(index)
    members = {}
    for name in names:
        topics = everybody if is_homogeneous else draw(st.lists(st.sampled_from([A, B, C]), unique=True))
        current = {topic: frozenset(partitions) for topic, partitions in had.get(name, {}).items()}
        members[name] = MemberSpec(tuple(sorted(topics)), draw(st.sampled_from([None, f"i-{name}"])), current)
    return members, {topic: counts[topic] for topic in counts if any(topic in m.topic_ids for m in members.values())}


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups())
def test_every_partition_is_assigned_to_a_subscriber(name: str, group: tuple[Members, dict[bytes, int]]) -> None:
    members, counts = group
    assigned = ASSIGNORS[name](members, counts)
    assert list(assigned) == list(members)
    owners = [
        (topic, index) for sets in assigned.values() for topic, partitions in sets.items() for index in partitions
    ]
    assert sorted(owners) == sorted((topic, index) for topic in counts for index in range(counts[topic]))
    assert all(sets.keys() <= set(members[member].topic_ids) for member, sets in assigned.items())
    assert all(partitions for sets in assigned.values() for partitions in sets.values())


@pytest.mark.parametrize("name", ASSIGNORS)
def test_partition_that_two_members_report_is_assigned_once(name: str) -> None:
    """A member that the coordinator has removed may still own partitions, and report them when it joins again."""
    current = {A: frozenset({0, 1})}
    members = {member: MemberSpec((A,), None, current) for member in ("one", "two")}
    assigned = ASSIGNORS[name](members, {A: 4})
    assert sorted(index for sets in assigned.values() for index in sets[A]) == [0, 1, 2, 3]


@given(group=groups())
def test_uniform_is_even_where_all_have_the_same_topics(group: tuple[Members, dict[bytes, int]]) -> None:
    members, counts = group
    if len({member.topic_ids for member in members.values()}) == 1:
        sizes = [count(sets) for sets in ASSIGNORS["uniform"](members, counts).values()]
        assert max(sizes) - min(sizes) <= 1


@given(group=groups(members_max=3, partitions_max=2))
def test_uniform_is_as_even_as_it_can_be_where_topics_differ(group: tuple[Members, dict[bytes, int]]) -> None:
    members, counts = group
    sizes = [count(sets) for sets in ASSIGNORS["uniform"](members, counts).values()]
    choices = [
        [member for member in members if topic in members[member].topic_ids]
        for topic in counts
        for _ in range(counts[topic])
    ]
    possible = (sum(owners.count(member) ** 2 for member in members) for owners in product(*choices))
    assert sum(size**2 for size in sizes) == min(possible)


def test_uniform_moves_a_partition_that_its_member_did_not_have_before() -> None:
    """The topic of the second partition has few subscribers, so it is given to the last member only for a moment."""
    members = {
        "m0": MemberSpec((A,)),
        "m1": MemberSpec((A, C), None, {C: frozenset({1})}),
        "m2": MemberSpec((A, C), None, {A: frozenset({0})}),
    }
    assert ASSIGNORS["uniform"](members, {A: 1, C: 2}) == {"m0": {A: {0}}, "m1": {C: {1}}, "m2": {C: {0}}}


@given(group=groups())
def test_uniform_keeps_an_even_assignment(group: tuple[Members, dict[bytes, int]]) -> None:
    members, counts = group
    assigned = ASSIGNORS["uniform"](members, counts)
    assert ASSIGNORS["uniform"](_having(members, assigned), counts) == assigned


@given(members=st.integers(2, 8), partitions=st.integers(1, 40), joins=st.booleans())
def test_uniform_moves_as_few_partitions_as_possible(members: int, partitions: int, joins: bool) -> None:
    before: Members = {f"m{number}": MemberSpec((A,)) for number in range(members)}
    had = ASSIGNORS["uniform"](before, {A: partitions})
    after = _having(before, had)
    if joins:
        after["new"] = MemberSpec((A,))
    else:
        del after["m0"]
    has = ASSIGNORS["uniform"](after, {A: partitions})
    kept = sum(count(intersection(has[member], had[member])) for member in has if member in had)
    newcomer = count(has["new"]) if joins else count(had["m0"])
    assert kept == partitions - newcomer


def test_partitions_move_along_a_chain_of_members() -> None:
    """No member has two more than a member with which it shares a topic, and yet a more even assignment exists."""
    members = {
        "a": MemberSpec((A,), current={A: frozenset({0, 1, 2})}),
        "b": MemberSpec((A, B), current={B: frozenset({0, 1})}),
        "c": MemberSpec((B,), current={B: frozenset({2})}),
    }
    assigned = ASSIGNORS["uniform"](members, {A: 3, B: 3})
    assert sorted(count(sets) for sets in assigned.values()) == [2, 2, 2]


def test_ranges_are_in_the_order_of_static_members_first() -> None:
    members = {"z": MemberSpec((A, B)), "y": MemberSpec((A, B)), "x": MemberSpec((A, B), "instance")}
    assigned = ASSIGNORS["range"](members, {A: 7, B: 7})
    expected = {"x": {0, 1, 2}, "y": {3, 4}, "z": {5, 6}}
    assert assigned == {member: {A: frozenset(expected[member]), B: frozenset(expected[member])} for member in members}


def test_ranges_of_a_topic_are_among_those_subscribed_to_it() -> None:
    members = {"x": MemberSpec((A,)), "y": MemberSpec((A, B)), "z": MemberSpec((B,))}
    assigned = ASSIGNORS["range"](members, {A: 2, B: 1})
    assert assigned == {"x": {A: frozenset({0})}, "y": {A: frozenset({1}), B: frozenset({0})}, "z": {}}


def test_group_without_members_has_no_assignment() -> None:
    assert ASSIGNORS["uniform"]({}, {}) == ASSIGNORS["range"]({}, {}) == {}


def _having(members: Members, assigned: dict[str, PartitionSets]) -> Members:
    return {name: MemberSpec(member.topic_ids, member.instance_id, assigned[name]) for name, member in members.items()}
