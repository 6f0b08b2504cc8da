"""Plans that take the replicas off one broker."""

import pytest

from broker.cli.commands.replica_evacuation import evacuate, in_fewer_racks
from broker.cli.commands.replica_spread import TooFewBrokers
from broker.client.types import TopicPartition

NO_RACKS = dict.fromkeys(range(1, 6))


def partitions(*replicas: tuple[int, ...]) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition("orders", number): each for number, each in enumerate(replicas)}


def test_only_the_replicas_of_the_broker_move_to_the_brokers_with_the_fewest() -> None:
    current = partitions((3, 1), (3, 2), (3, 1), (1, 2))
    plan = evacuate(current, 3, [1, 2, 4, 5], NO_RACKS, {})
    assert {each.partition: sorted(replicas) for each, replicas in plan.items()} == {0: [1, 4], 1: [2, 5], 2: [1, 4]}
    assert sorted(replicas[0] for replicas in plan.values()) == [1, 2, 4]


def test_a_follower_is_replaced_after_the_preferred_leader() -> None:
    assert list(evacuate(partitions((1, 3, 2)), 3, [1, 2, 4], NO_RACKS, {}).values()) == [[1, 2, 4]]


def test_a_replica_goes_to_a_rack_without_one_before_a_broker_with_fewer_replicas() -> None:
    racks = {1: "a", 2: "b", 3: "c", 4: "a", 5: "c"}
    current = partitions((1, 3), (5, 2), (5, 2))
    plan = evacuate(current, 3, [1, 2, 4, 5], racks, {})
    assert plan == {TopicPartition("orders", 0): [1, 2]} or plan == {TopicPartition("orders", 0): [1, 5]}
    assert in_fewer_racks(current, plan, racks) == []
    alone = evacuate(current, 3, [1, 4], racks, {})
    assert alone == {TopicPartition("orders", 0): [1, 4]}
    assert in_fewer_racks(current, alone, racks) == [TopicPartition("orders", 0)]


def test_large_partitions_are_placed_first_so_that_bytes_are_even() -> None:
    current = partitions((3,), (3,), (3,), (3,))
    sizes = {TopicPartition("orders", number): size for number, size in enumerate((1, 100, 2, 101))}
    plan = evacuate(current, 3, [1, 2], NO_RACKS, sizes)
    assert {broker: sorted(each.partition for each in plan if plan[each] == [broker]) for broker in (1, 2)} == {
        1: [0, 3],
        2: [1, 2],
    }


def test_a_partition_with_replicas_on_all_other_brokers_cannot_be_taken_off() -> None:
    with pytest.raises(TooFewBrokers, match=r"orders-0 has 2 replicas, and no other broker may have one: 1 may"):
        evacuate(partitions((3, 1)), 3, [1], NO_RACKS, {})
