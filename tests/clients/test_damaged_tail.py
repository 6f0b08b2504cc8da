"""A node that died, and whose log's tail is torn, flipped or followed by garbage, serves the longest valid prefix.

Each partition of one topic has the same batches and different damage, so that one restart tests all of them.
"""

import random
import struct
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from confluent_kafka import Producer, TopicPartition

from tests.support.confluent_driver import DeliveryLedger, create_topic, new_consumer, watermarks
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

SEGMENT = "00000000000000000000.log"
BATCHES = 3
RECORDS_PER_BATCH = 3

# Base offset and length; the length is that of the bytes after it.
BATCH_START = struct.Struct(">qi")

# The checksum covers neither the base offset (0-7) nor the leader epoch (12-15), because a broker may change both.
CHECKED_BYTES_BEFORE_EPOCH = range(8, 12)
FIRST_CHECKED_BYTE_AFTER_EPOCH = 16


@attrs.frozen
class Damage:
    """A change of a segment's bytes from the start of its last batch on, and the number of batches that
    must survive.
    """

    name: str
    apply: Callable[[bytes, int], bytes]
    surviving_batches: int


def cut(size: int) -> Damage:
    return Damage(f"cut after {size} bytes", lambda log, last: log[: last + size], BATCHES - 1)


def flip(position: int, bit: int) -> Damage:
    def apply(log: bytes, last: int) -> bytes:
        flipped = bytearray(log)
        flipped[last + position] ^= 1 << bit
        return bytes(flipped)

    return Damage(f"flip of bit {bit} in byte {position}", apply, BATCHES - 1)


def tail(name: str, nonsense: bytes) -> Damage:
    return Damage(name, lambda log, last: log + nonsense, BATCHES)


def damages(batch_size: int, step: int, rng: random.Random) -> list[Damage]:
    checked = [*CHECKED_BYTES_BEFORE_EPOCH, *range(FIRST_CHECKED_BYTE_AFTER_EPOCH, batch_size)]
    start_of_batch = BATCH_START.pack(BATCHES * RECORDS_PER_BATCH, 200) + bytes(20)
    return [
        *(cut(size) for size in range(0, batch_size, step)),
        *(flip(position, rng.randrange(8)) for position in checked[::step]),
        tail("nothing at all", b""),
        tail("a few zeros", bytes(11)),
        tail("a page of zeros", bytes(4_096)),
        tail("random bytes", rng.randbytes(700)),
        tail("the start of one more batch", start_of_batch),
    ]


def write_batches(bootstrap: str, topic: str, partitions: int, batches: range) -> DeliveryLedger:
    """Write the same batches to every partition. The records of one flush form one batch."""
    ledger = DeliveryLedger()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1_000})
    for batch in batches:
        for partition in range(partitions):
            for number in range(RECORDS_PER_BATCH):
                producer.produce(
                    topic, value_of(batch, number), partition=partition, timestamp=10**12, on_delivery=ledger.report
                )
        assert producer.flush(60) == 0
    assert not ledger.errors
    return ledger


def value_of(batch: int, number: int) -> bytes:
    return b"%d/%d" % (batch, number)


def batch_positions(log: bytes) -> list[int]:
    positions = []
    position = 0
    while position < len(log):
        positions.append(position)
        position += BATCH_START.size + BATCH_START.unpack_from(log, position)[1]
    assert position == len(log)
    return positions


def damage_segment(path: Path, damage: Damage) -> None:
    log = path.read_bytes()
    positions = batch_positions(log)
    assert len(positions) == BATCHES
    path.write_bytes(damage.apply(log, positions[-1]))


def read_values(bootstrap: str, topic: str, ends: list[int]) -> list[list[bytes | None]]:
    values: list[list[bytes | None]] = [[] for _ in ends]
    consumer = new_consumer(bootstrap)
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(len(ends))])
        for _ in range(sum(ends)):
            message = consumer.poll(30)
            assert message is not None, "a record within the bounds of its partition does not come"
            assert message.error() is None, message.error()
            partition = message.partition()
            assert partition is not None
            assert message.offset() == len(values[partition])
            values[partition].append(message.value())
    finally:
        consumer.close()
    return values


@pytest.mark.seeds(1)
def test_a_damaged_tail_is_cut_to_the_longest_valid_prefix(
    new_node: Callable[..., NodeProcess], topic: str, seed: int, full: bool, figure: Callable[[str], None]
) -> None:
    node = new_node()
    node.start()
    create_topic(node.bootstrap, "probe", 1)
    write_batches(node.bootstrap, "probe", 1, range(BATCHES))
    probe = (node.data_dir / "probe-0" / SEGMENT).read_bytes()
    batch_size = len(probe) - batch_positions(probe)[-1]
    planned = damages(batch_size, 1 if full else 5, random.Random(seed))
    create_topic(node.bootstrap, topic, len(planned))
    write_batches(node.bootstrap, topic, len(planned), range(BATCHES))
    node.kill()

    for partition, damage in enumerate(planned):
        damage_segment(node.data_dir / f"{topic}-{partition}" / SEGMENT, damage)
    figure(f"{len(planned)} damaged partitions, start-up {node.start():.2f} s")

    found = watermarks(node.bootstrap, topic, len(planned))
    expected = [(0, damage.surviving_batches * RECORDS_PER_BATCH) for damage in planned]
    wrong = [(d.name, f, e) for d, f, e in zip(planned, found, expected, strict=True) if f != e]
    assert not wrong, f"damage, found, expected: {wrong}"

    write_batches(node.bootstrap, topic, len(planned), range(BATCHES, BATCHES + 1))
    for damage, values in zip(
        planned, read_values(node.bootstrap, topic, [end + RECORDS_PER_BATCH for _, end in expected]), strict=True
    ):
        batches = [*range(damage.surviving_batches), BATCHES]
        whole = [value_of(batch, number) for batch in batches for number in range(RECORDS_PER_BATCH)]
        assert values == whole, damage.name
    node.stop()
    node.start()
    assert watermarks(node.bootstrap, topic, len(planned)) == [(0, end + RECORDS_PER_BATCH) for _, end in expected]
