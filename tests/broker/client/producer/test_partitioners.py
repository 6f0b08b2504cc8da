"""The partition of a record; other clients choose the same one for a key."""

from collections import Counter
from random import Random

import kafka.partitioner.default as kafka_python
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client.producer.partitioners import (
    KeyHashes,
    RoundRobinPartitioner,
    TopicPartitions,
    choose_sticky_partition,
    murmur2,
)

SIX = TopicPartitions(6, range(6))


# From Kafka's own tests (UtilsTest.java), as unsigned numbers.
@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


@given(st.binary(max_size=40))
def test_murmur2_agrees_with_kafka_python(key: bytes) -> None:
    assert murmur2(key) == kafka_python.murmur2(key) & 0xFFFFFFFF


def test_hashes_of_more_keys_than_are_remembered_stay_right() -> None:
    hashes = KeyHashes()
    keys = [str(number).encode() for number in range(25_000)]
    assert [hashes[key] for key in keys] == [murmur2(key) & 0x7FFFFFFF for key in keys]


def test_round_robin_uses_partitions_with_a_leader_in_turn() -> None:
    partitioner = RoundRobinPartitioner()
    chosen = [partitioner("t", b"key", b"", TopicPartitions(4, [0, 2, 3])) for _ in range(6)]
    assert chosen == [0, 2, 3, 0, 2, 3]
    assert [partitioner("other", None, b"", TopicPartitions(2, [])) for _ in range(3)] == [0, 1, 0]


def test_kip_794_uniform_choice_without_queues() -> None:
    rng = Random(1)
    counts = Counter(choose_sticky_partition(SIX, rng, queue_length=lambda _: 0) for _ in range(6_000))
    assert sorted(counts) == list(range(6))
    assert min(counts.values()) > 850


def test_kip_794_partitions_with_longer_queues_are_chosen_less_often() -> None:
    lengths = {0: 0, 1: 3, 2: 1}
    rng = Random(1)
    partitions = TopicPartitions(3, range(3))
    counts = Counter(choose_sticky_partition(partitions, rng, queue_length=lengths.__getitem__) for _ in range(8_000))
    assert counts[0] == pytest.approx(4_000, rel=0.1)
    assert counts[1] == pytest.approx(1_000, rel=0.1)
    assert counts[2] == pytest.approx(3_000, rel=0.1)


def test_kip_794_slow_brokers_are_left_out_unless_all_are_slow() -> None:
    rng = Random(1)
    chosen = {
        choose_sticky_partition(SIX, rng, queue_length=lambda _: 0, is_slow=lambda partition: partition < 4)
        for _ in range(200)
    }
    assert chosen == {4, 5}
    chosen = {choose_sticky_partition(SIX, rng, queue_length=lambda _: 0, is_slow=lambda _: True) for _ in range(200)}
    assert chosen == set(range(6))


def test_partitions_without_a_leader_are_chosen_only_if_none_has_one() -> None:
    rng = Random(1)
    assert {choose_sticky_partition(TopicPartitions(3, [1]), rng) for _ in range(50)} == {1}
    assert {choose_sticky_partition(TopicPartitions(3, []), rng) for _ in range(50)} == {0, 1, 2}
