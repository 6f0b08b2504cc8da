"""Where new partitions go."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.controller.placement import StripedReplicaPlacer
from metadata.errors import InvalidReplicationFactor
from metadata.image import BrokerImage


def broker(broker_id: int, rack: str | None = None, fenced: bool = False) -> BrokerImage:
    return BrokerImage(broker_id, 0, b"", {}, {}, rack, fenced, False, ())


RACKS = st.sampled_from([None, "a", "b", "c"])
BROKERS = st.lists(st.tuples(RACKS, st.booleans()), min_size=1, max_size=9).map(
    lambda drawn: [broker(i, rack, fenced) for i, (rack, fenced) in enumerate(drawn)]
)


@given(BROKERS, st.integers(1, 9), st.integers(1, 30), st.randoms(use_true_random=False))
def test_replicas_are_distinct_led_by_a_live_one_and_spread_over_racks(
    brokers: list[BrokerImage], factor: int, count: int, rng: Random
) -> None:
    live = {each.broker_id for each in brokers if not each.fenced}
    if not live or factor > len(brokers):
        with pytest.raises(InvalidReplicationFactor):
            StripedReplicaPlacer(brokers, factor, rng)
        return
    racks = {each.broker_id: each.rack for each in brokers}
    placer = StripedReplicaPlacer(brokers, factor, rng)
    for _ in range(count):
        replicas = placer.place()
        assert len(set(replicas)) == len(replicas) == factor
        assert replicas[0] in live
        assert len({racks[replica] for replica in replicas}) >= min(factor, len(set(racks.values())))


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_leaders_and_replicas_are_even(factor: int) -> None:
    brokers = [broker(i, "abc"[i % 3]) for i in range(6)]
    placer = StripedReplicaPlacer(brokers, factor, Random(3))
    placed = [placer.place() for _ in range(600)]
    leaders = Counter(replicas[0] for replicas in placed)
    everybody = Counter(replica for replicas in placed for replica in replicas)
    assert min(leaders.values()) > 80
    assert max(leaders.values()) < 120
    assert max(everybody.values()) - min(everybody.values()) < 60 * factor


def test_small_topics_do_not_all_go_to_the_same_brokers() -> None:
    brokers = [broker(i) for i in range(5)]
    rng = Random(3)
    assert len({StripedReplicaPlacer(brokers, 1, rng).place() for _ in range(50)}) == 5


def test_a_fenced_broker_is_the_last_choice() -> None:
    brokers = [broker(1), broker(2, fenced=True), broker(3)]
    placer = StripedReplicaPlacer(brokers, 2, Random(1))
    assert all(set(placer.place()) == {1, 3} for _ in range(20))
