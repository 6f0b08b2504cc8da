"""Replicas are spread by racks, count, bytes and leaders, and few of them move."""

import cProfile
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.commands.reassign import preview
from broker.cli.commands.replica_spread import TooFewBrokers, measure, moved, spread
from broker.client.types import TopicPartition

BROKERS = st.lists(st.integers(0, 7), min_size=1, max_size=5, unique=True)
RACKS = st.dictionaries(st.integers(0, 7), st.sampled_from("abc"), min_size=1)
MEGABYTE = 1 << 20


def rows(*replicas: Sequence[int], topic: str = "t") -> dict[TopicPartition, Sequence[int]]:
    return {TopicPartition(topic, number): each for number, each in enumerate(replicas)}


def striped(brokers: int, partitions: int, replicas: int = 3) -> dict[TopicPartition, Sequence[int]]:
    """Ten topics over the brokers 1, 2, ..., as Kafka places new ones."""
    return {
        TopicPartition(f"t{topic}", number): [(topic + number + each) % brokers + 1 for each in range(replicas)]
        for topic in range(10)
        for number in range(partitions // 10)
    }


def uneven(partitions: Sequence[TopicPartition] | Mapping[TopicPartition, object]) -> dict[TopicPartition, int]:
    """Sizes from 100 KB to 10 GB."""
    rng = Random(7)
    return {partition: int(10 ** rng.uniform(5, 10)) for partition in partitions}


def no_racks(brokers: int) -> dict[int, str | None]:
    return dict.fromkeys(range(1, brokers + 1))


@given(st.lists(BROKERS, min_size=1, max_size=12), RACKS, st.data())
def test_each_partition_has_its_replicas_on_the_brokers_in_as_many_racks_as_possible(
    before: list[list[int]], racks: dict[int, str | None], data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, len(racks)))
    sizes = data.draw(st.lists(st.integers(0, 100), min_size=len(before), max_size=len(before)))
    current = rows(*before)
    after = spread(current, racks, dict(zip(current, sizes, strict=True)), count)
    for replicas in after.values():
        assert len(replicas) == len(set(replicas)) == count
        assert set(replicas) <= set(racks)
    assert measure(after, racks, {}).in_few_racks == 0
    # The plan of a plan moves nothing.
    assert list(moved(after, spread(after, racks, {}, count))) == []


@given(st.lists(BROKERS, min_size=1, max_size=20), st.integers(1, 8))
def test_without_racks_and_sizes_brokers_differ_by_one_replica_and_one_leader(
    before: list[list[int]], brokers: int
) -> None:
    racks: dict[int, str | None] = dict.fromkeys(range(brokers))
    count = min(2, brokers)
    found = measure(spread(rows(*before), racks, {}, count), racks, {})
    assert found.replicas[1] - found.replicas[0] <= 1
    assert found.leaders[1] - found.leaders[0] <= 1


def test_an_added_broker_gets_its_share_and_nothing_else_moves() -> None:
    current = striped(3, 300)
    after = spread(current, no_racks(4), uneven(current), None)
    assert measure(after, no_racks(4), {}).replicas == (225, 225)
    assert measure(after, no_racks(4), {}).leaders == (75, 75)
    moves = list(moved(current, after))
    assert (len(moves), {broker for _, broker in moves}) == (225, {4})
    of_topics = Counter(partition.topic for partition, _ in moves)
    assert set(of_topics.values()) <= {22, 23}


def test_only_the_replicas_of_a_lost_broker_move() -> None:
    current = striped(6, 600)
    after = spread(current, no_racks(5), {}, None)
    assert measure(after, no_racks(5), {}).replicas == (360, 360)
    assert len(list(moved(current, after))) == 300


def test_replicas_that_share_a_rack_are_the_ones_that_move() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b"}
    current = rows([1, 2], [3, 4], [1, 3], [2, 4])
    after = spread(current, racks, {}, None)
    assert measure(after, racks, {}).in_few_racks == 0
    assert {partition.partition for partition, _ in moved(current, after)} == {0, 1}
    assert measure(after, racks, {}).replicas == (2, 2)


def test_a_broker_in_a_small_rack_has_more_replicas_than_the_others() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "b", 3: "b"}
    after = spread(rows(*[[2, 3]] * 6), racks, {}, None)
    assert Counter(broker for replicas in after.values() for broker in replicas) == {1: 6, 2: 3, 3: 3}


def test_racks_do_not_count_if_a_broker_has_none() -> None:
    current = rows([1, 2], [2, 1])
    assert spread(current, {1: "a", 2: "a", 3: None}, {}, None) != {}
    assert measure(current, {1: "a", 2: "a", 3: None}, {}).in_few_racks == 0


def test_bytes_are_evened_by_swaps_that_keep_the_counts() -> None:
    current = rows([1], [1], [2], [2])
    sizes = dict(zip(current, [100 * MEGABYTE, 90 * MEGABYTE, 10 * MEGABYTE, 20 * MEGABYTE], strict=True))
    after = spread(current, no_racks(2), sizes, None)
    assert measure(after, no_racks(2), sizes).size_bytes == (110 * MEGABYTE, 110 * MEGABYTE)
    assert measure(after, no_racks(2), sizes).replicas == (2, 2)


def test_bytes_within_a_tenth_of_the_average_move_nothing() -> None:
    current = rows([1], [1], [2], [2])
    sizes = dict(zip(current, [26 * MEGABYTE, 26 * MEGABYTE, 25 * MEGABYTE, 25 * MEGABYTE], strict=True))
    assert list(moved(current, spread(current, no_racks(2), sizes, None))) == []


@pytest.mark.parametrize("brokers", [9, 12])
def test_thousands_of_partitions_of_very_different_sizes_are_even_after_the_fewest_moves(brokers: int) -> None:
    current = striped(9, 1000)
    racks: dict[int, str | None] = {broker: "abc"[broker % 3] for broker in range(1, brokers + 1)}
    sizes = uneven(current)
    after = spread(current, racks, sizes, None)
    found = measure(after, racks, sizes)
    assert found.replicas[1] - found.replicas[0] <= 1
    assert found.leaders[1] - found.leaders[0] <= 1
    assert found.in_few_racks == 0
    assert found.size_bytes[1] - found.size_bytes[0] <= 0.15 * sum(sizes.values()) * 3 / brokers
    needed = 3000 - 3000 * 9 // brokers
    assert len(list(moved(current, after))) <= needed + 40


def test_fewer_brokers_than_replicas_are_refused() -> None:
    with pytest.raises(TooFewBrokers, match="t-0 needs 3 brokers, of 2"):
        spread(rows([1, 2, 3]), no_racks(2), {}, None)


def test_brokers_that_cannot_be_evened_cost_no_time_for_each_swap_of_others() -> None:
    """A few huge partitions make their brokers heavy whatever is swapped. The bound is almost twice the calls."""
    rng = Random(1)
    before = {TopicPartition(f"t{each % 10}", each // 10): rng.sample(range(30), 3) for each in range(300)}
    sizes = {partition: int(rng.paretovariate(0.9) * MEGABYTE) for partition in before}
    racks: dict[int, str | None] = dict.fromkeys(range(30))
    profile = cProfile.Profile()
    after = measure(profile.runcall(spread, before, racks, sizes, None), racks, sizes)
    assert sum(each.callcount for each in profile.getstats()) < 600_000
    assert (after.replicas, after.leaders) == ((30, 30), (10, 10))


def test_preview_names_racks_only_where_brokers_have_them() -> None:
    """A replica on a broker that is down is on no known broker, which looked like too few racks."""
    partition = TopicPartition("orders", 0)
    for rack, is_named in ((None, False), ("a", True)):
        racks = {1: rack, 2: "b" if rack else None}
        lines = list(preview({partition: [1, 3]}, {partition: [1, 2]}, racks, {partition: 0}))
        assert any("racks" in line for line in lines) == is_named
        assert lines[0] == "1 of 1 partition changes, 1 replica moves, 0 B."
