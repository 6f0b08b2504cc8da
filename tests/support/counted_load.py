"""A load that detects lost, duplicated and misplaced records.

Record number n goes to partition n modulo the number of partitions, and carries n in its first eight bytes. So the
number of sent records determines the content of each partition and its order.
"""

import struct
import time
from array import array

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.confluent_driver import new_consumer, watermarks

NUMBER = struct.Struct(">Q")
VALUE_SIZE_BYTES = 100
PADDING = bytes(range(VALUE_SIZE_BYTES - NUMBER.size))

# Longer than every restart in these tests, because an expired record is an error.
DELIVERY_TIMEOUT_MS = 300_000


class CountedLoad:
    """An idempotent producer with confluent-kafka's defaults, and the acknowledgements that it received.

    Failed deliveries and fatal errors are kept in `errors`. Broken connections are expected when a node is killed, and
    are not errors.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.topic = topic
        self.sent = 0
        self.errors: list[KafkaError] = []
        # For each partition, in the order of acknowledgements: offset and number alternating.
        self._acknowledged = [array("q") for _ in range(partitions)]
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 500,
                "error_cb": self._on_error,
                "log_level": 0,
            }
        )

    @property
    def partitions(self) -> int:
        return len(self._acknowledged)

    @property
    def delivered(self) -> int:
        return sum(map(len, self._acknowledged)) // 2

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.errors.append(error)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        value, partition, offset = message.value(), message.partition(), message.offset()
        if error is not None:
            self.errors.append(error)
        elif value is not None and partition is not None and offset is not None:
            acknowledged = self._acknowledged[partition]
            acknowledged.append(offset)
            acknowledged.append(NUMBER.unpack_from(value)[0])

    def send(self, count: int, timeout: float = 600) -> None:
        """Send `count` more records at full speed, and wait until all are acknowledged."""
        for number in range(self.sent, self.sent + count):
            value = NUMBER.pack(number) + PADDING
            while True:
                try:
                    self._producer.produce(
                        self.topic, value, partition=number % self.partitions, on_delivery=self._on_delivery
                    )
                except BufferError:
                    self._producer.poll(0.05)
                else:
                    break
            self.sent += 1
            if number % 256 == 0:
                self._producer.poll(0)
        self._producer.flush(timeout)

    def wait_for_delivery(self, count: int, timeout: float = 120) -> None:
        """Wait, while another thread sends, until `count` records have been acknowledged since the load began."""
        deadline = time.monotonic() + timeout
        while self.delivered < count:
            self.assert_no_errors()
            assert time.monotonic() < deadline, f"{self.delivered} of {count} delivered in {timeout} s"
            time.sleep(0.002)

    def assert_all_delivered(self) -> None:
        self.assert_no_errors()
        assert self.delivered == self.sent

    def assert_no_errors(self) -> None:
        assert not self.errors, self.errors[:3]

    def acknowledged_end(self, partition: int) -> int:
        """The offset after the highest acknowledged one in a partition."""
        offsets = self._acknowledged[partition][::2]
        return max(offsets, default=-1) + 1

    def assert_acknowledged_held(self, bootstrap: str) -> None:
        """Check that every partition contains all acknowledged offsets."""
        acknowledged_ends = [self.acknowledged_end(partition) for partition in range(self.partitions)]
        ends = [end for _, end in watermarks(bootstrap, self.topic, self.partitions)]
        lost = [pair for pair in zip(acknowledged_ends, ends, strict=True) if pair[0] > pair[1]]
        assert not lost, f"acknowledged end, actual end: {lost}"

    def assert_read_exactly_once(self, bootstrap: str, timeout: float = 300) -> None:
        """Read all records, and check that each is there once, in order, undamaged, and at its acknowledged offset."""
        offsets_by_number: list[dict[int, int]] = [
            dict(zip(acknowledged[1::2], acknowledged[::2], strict=True)) for acknowledged in self._acknowledged
        ]
        expected = [list(range(partition, self.sent, self.partitions)) for partition in range(self.partitions)]
        consumer = new_consumer(bootstrap)
        try:
            consumer.assign([TopicPartition(self.topic, partition, 0) for partition in range(self.partitions)])
            for partition, found in enumerate(_read(consumer, self.partitions, self.sent, timeout)):
                assert list(found[1::2]) == expected[partition]
                # A duplicate that the broker recognises is acknowledged with the offset of the first copy.
                assert dict(zip(found[1::2], found[::2], strict=True)) == offsets_by_number[partition]
        finally:
            consumer.close()
        assert watermarks(bootstrap, self.topic, self.partitions) == [(0, len(numbers)) for numbers in expected]


def _read(consumer: Consumer, partitions: int, count: int, timeout: float) -> list["array[int]"]:
    """For each partition, in the order of reading: offset and number alternating."""
    found = [array("q") for _ in range(partitions)]
    left = count
    deadline = time.monotonic() + timeout
    while left > 0:
        assert time.monotonic() < deadline, f"{left} of {count} records still to come after {timeout} s"
        for message in consumer.consume(min(left, 1_000), timeout=0.05):
            error, value = message.error(), message.value()
            partition, offset = message.partition(), message.offset()
            assert error is None, error
            assert value is not None
            assert partition is not None
            assert offset is not None
            assert value[NUMBER.size :] == PADDING
            found[partition].append(offset)
            found[partition].append(NUMBER.unpack_from(value)[0])
            left -= 1
    return found
