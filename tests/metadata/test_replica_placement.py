"""Placement of new partitions."""

from collections import Counter
from collections.abc import MutableSequence
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.controller.placement import StripedReplicaPlacer
from metadata.image import BrokerImage
from metadata.protocol import KafkaError


def broker(broker_id: int, rack: str | None = None, fenced: bool = False) -> BrokerImage:
    return BrokerImage(broker_id, 0, b"", {}, {}, rack, fenced, False, ())


RACKS = st.sampled_from([None, "a", "b", "c"])
BROKERS = st.lists(st.tuples(RACKS, st.booleans()), min_size=1, max_size=9).map(
    lambda drawn: [broker(i, rack, fenced) for i, (rack, fenced) in enumerate(drawn)]
)


@given(BROKERS, st.integers(1, 9), st.integers(1, 30), st.randoms(use_true_random=False))
def test_replicas_are_distinct_active_leader_first_and_spread_over_racks(
    brokers: list[BrokerImage], factor: int, count: int, rng: Random
) -> None:
    live = {each.broker_id for each in brokers if not each.fenced}
    if not live or factor > len(brokers):
        with pytest.raises(KafkaError, match="INVALID_REPLICATION_FACTOR"):
            StripedReplicaPlacer(brokers, factor, rng)
        return
    racks = {each.broker_id: each.rack for each in brokers}
    placer = StripedReplicaPlacer(brokers, factor, rng)
    for _ in range(count):
        replicas = placer.place()
        assert len(set(replicas)) == len(replicas) == factor
        assert replicas[0] in live
        assert len({racks[replica] for replica in replicas}) >= min(factor, len(set(racks.values())))


SHAPES = [(1, 1), (1, 5), (3, 1), (3, 3), (4, 2)]


@pytest.mark.parametrize(
    ("racks", "per_rack", "factor"),
    [(racks, per_rack, factor) for racks, per_rack in SHAPES for factor in range(1, min(racks * per_rack, 5) + 1)],
)
def test_leaders_and_replicas_are_balanced(racks: int, per_rack: int, factor: int) -> None:
    """In each round, every broker leads once, and the numbers of replicas differ by one at most."""
    count = racks * per_rack
    placer = StripedReplicaPlacer([broker(i, f"rack-{i % racks}") for i in range(count)], factor, Random(3))
    for _ in range(20):
        placed = [placer.place() for _ in range(count)]
        assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(range(count), 1)
        everybody = Counter(replica for replicas in placed for replica in replicas)
        assert max(everybody.values()) - min(everybody[i] for i in range(count)) <= 1


class InOrder(Random):
    """Does not shuffle."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        pass


def test_brokers_of_a_rack_take_turns_and_so_do_the_fenced_ones() -> None:
    brokers = [broker(i, fenced=i > 2) for i in range(6)]
    placer = StripedReplicaPlacer(brokers, 4, InOrder())
    assert [placer.place() for _ in range(4)] == [(0, 1, 2, 3), (1, 2, 0, 4), (2, 0, 1, 5), (0, 1, 2, 3)]


def test_racks_take_turns() -> None:
    brokers = [broker(i, "abc"[i % 3]) for i in range(9)]
    placer = StripedReplicaPlacer(brokers, 4, Random(3))
    racks = [["abc"[replica % 3] for replica in placer.place()] for _ in range(3)]
    first = "".join(racks[0][:3])
    assert sorted(first) == list("abc")
    assert racks == [[*first[turn:], *first[:turn], first[turn]] for turn in range(3)]


def test_racks_without_active_brokers_get_no_leaders_and_the_others_stay_balanced() -> None:
    brokers = [broker(i, "abc"[i % 3], fenced=i % 3 == 2) for i in range(9)]
    placer = StripedReplicaPlacer(brokers, 3, Random(3))
    placed = [placer.place() for _ in range(60)]
    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys([0, 1, 3, 4, 6, 7], 10)
    assert all(len({replica % 3 for replica in replicas}) == 3 for replicas in placed), "racks come before lives"


def test_no_two_brokers_share_all_partitions() -> None:
    placer = StripedReplicaPlacer([broker(i) for i in range(6)], 3, Random(3))
    together = Counter(frozenset(placer.place()) for _ in range(600))
    assert len(together) == 20, "all sets of three of six"


def test_broker_in_shutdown_gets_no_replicas_while_there_are_others() -> None:
    brokers = [broker(1), attrs.evolve(broker(2), in_controlled_shutdown=True), broker(3)]
    placer = StripedReplicaPlacer(brokers, 2, Random(1))
    assert all(set(placer.place()) == {1, 3} for _ in range(20))
    placer = StripedReplicaPlacer(brokers, 3, Random(1))
    assert all(placer.place()[2] == 2 for _ in range(20))


@pytest.mark.parametrize("count", [2, 5])
def test_small_topics_are_spread_over_brokers(count: int) -> None:
    brokers = [broker(i) for i in range(count)]
    rng = Random(3)
    assert len({StripedReplicaPlacer(brokers, 1, rng).place() for _ in range(50)}) == count


def test_a_fenced_broker_is_the_last_choice() -> None:
    brokers = [broker(1), broker(2, fenced=True), broker(3)]
    placer = StripedReplicaPlacer(brokers, 2, Random(1))
    assert all(set(placer.place()) == {1, 3} for _ in range(20))


def test_broker_with_only_cordoned_log_directories_gets_no_replica_kip_1066() -> None:
    directories = (b"a" * 16, b"b" * 16)
    cordoned = attrs.evolve(broker(2), log_dirs=directories, cordoned_log_dirs=directories)
    brokers = [broker(1), cordoned, broker(3)]
    placer = StripedReplicaPlacer(brokers, 2, Random(1))
    assert all(set(placer.place()) == {1, 3} for _ in range(20))
    with pytest.raises(KafkaError, match=r"INVALID_REPLICATION_FACTOR: .*only 2 broker"):
        StripedReplicaPlacer(brokers, 3, Random(1))
    in_part = attrs.evolve(cordoned, cordoned_log_dirs=directories[:1])
    assert set(StripedReplicaPlacer([broker(1), in_part, broker(3)], 3, Random(1)).place()) == {1, 2, 3}
