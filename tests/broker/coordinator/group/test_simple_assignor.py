"""The simple assignor of share groups: equal shares, equal numbers of members, few moves (KIP-932)."""

from collections import Counter
from collections.abc import Mapping

import attrs
from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.group.assignors import MemberSpec, assign_simply
from broker.coordinator.group.partition_sets import PartitionSets, count

A, B = b"a" * 16, b"b" * 16


def _with(members: Mapping[str, MemberSpec], assigned: Mapping[str, PartitionSets]) -> dict[str, MemberSpec]:
    return {name: attrs.evolve(spec, current=assigned.get(name, {})) for name, spec in members.items()}


def _holders(assigned: Mapping[str, PartitionSets]) -> Counter[tuple[bytes, int]]:
    return Counter((topic, index) for sets in assigned.values() for topic, indexes in sets.items() for index in indexes)


partition_sets = st.dictionaries(st.sampled_from([A, B]), st.frozensets(st.integers(0, 7), min_size=1), max_size=2)
members_of_both = st.dictionaries(
    st.text("mnopq", min_size=1, max_size=2),
    partition_sets.map(lambda current: MemberSpec((A, B), current=current)),
    min_size=1,
    max_size=9,
)


@given(members=members_of_both, assignable=partition_sets)
def test_partitions_and_members_have_equal_shares_where_all_have_the_same_topics(
    members: dict[str, MemberSpec], assignable: dict[bytes, frozenset[int]]
) -> None:
    assigned = assign_simply(members, assignable)
    places = [(topic, index) for topic, indexes in assignable.items() for index in indexes]
    holders = _holders(assigned)
    assert holders.keys() == set(places)
    sharing = -(-len(members) // len(places)) if places else 0
    assert set(holders.values()) <= {sharing}
    sizes = [count(assigned[name]) for name in members]
    assert max(sizes) - min(sizes) <= 1
    assert assign_simply(_with(members, assigned), assignable) == assigned, "a balanced assignment stays"


@given(
    subscribed=st.lists(st.sampled_from([(A,), (B,), (A, B), ()]), min_size=1, max_size=7),
    current=st.lists(partition_sets, min_size=7, max_size=7),
    assignable=partition_sets,
)
def test_topics_are_shared_by_their_subscribers_where_subscriptions_differ(
    subscribed: list[tuple[bytes, ...]], current: list[PartitionSets], assignable: dict[bytes, frozenset[int]]
) -> None:
    members = {f"m{place}": MemberSpec(topics, current=current[place]) for place, topics in enumerate(subscribed)}
    assigned = assign_simply(members, assignable)
    for name, spec in members.items():
        assert set(assigned[name]) <= set(spec.topic_ids)
    holders = _holders(assigned)
    for topic in (A, B):
        partitions = assignable.get(topic, frozenset())
        subscribers = [name for name, spec in members.items() if topic in spec.topic_ids]
        if partitions and subscribers:
            counts = {holders[topic, index] for index in partitions}
            total = sum(holders[topic, index] for index in partitions)
            assert min(counts) >= 1
            assert total >= len(subscribers), "every subscriber has work"
            assert max(counts) - min(counts) <= 1


def test_more_members_than_partitions_share_them() -> None:
    members = {f"m{place}": MemberSpec((A,)) for place in range(5)}
    assigned = assign_simply(members, {A: frozenset({0, 1})})
    assert _holders(assigned) == {(A, 0): 3, (A, 1): 3}
    # A member that leaves costs its partitions alone.
    rest = _with({name: spec for name, spec in members.items() if name != "m4"}, assigned)
    after = assign_simply(rest, {A: frozenset({0, 1})})
    assert _holders(after) == {(A, 0): 2, (A, 1): 2}
    assert sum(bool(count(after[name])) for name in rest) == 4


def test_partitions_without_a_state_and_groups_without_members_are_not_assigned() -> None:
    assert assign_simply({}, {A: frozenset({0})}) == {}
    assert assign_simply({"m": MemberSpec((A, B))}, {B: frozenset({3})}) == {"m": {B: frozenset({3})}}
