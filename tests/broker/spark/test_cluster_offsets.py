"""The start and end of a query, from its options and the cluster, and the refusals when both are known."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from pyspark import TaskContext

from broker.client import TimedOut
from broker.spark.cluster_offsets import ClusterOffsets
from broker.spark.data_loss import DataLoss
from broker.spark.options import IllegalOption, ReadOptions
from broker.spark.ranges import OffsetRange, split_ranges
from broker.spark.reading import read_range
from broker.spark.task_attempts import settings_of_attempt
from tests.support.spark_topics import create_topic, fill_topic


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    """Two partitions with 30 and 5 records, a millisecond apart, starting at 1970-01-01 00:00:01."""
    name = create_topic(bootstrap, partitions=2)
    fill_topic(bootstrap, name, 30)
    fill_topic(bootstrap, name, 5, partition=1)
    return name


def read_options(bootstrap: str, topic: str, given: Mapping[str, str]) -> ReadOptions:
    """Options whose values refer to the topic as TOPIC."""
    named = {
        name: value.replace("TOPI[C]", f"{topic[:-1]}[{topic[-1]}]").replace("TOPIC", topic)
        for name, value in given.items()
    }
    chosen = {} if {"assign", "subscribePattern"} & named.keys() else {"subscribe": topic}
    return ReadOptions.of({"kafka.bootstrap.servers": bootstrap, **chosen, **named}, is_streaming=False)


def ranges(options: ReadOptions) -> list[OffsetRange]:
    with ClusterOffsets(options) as cluster:
        return cluster.ranges()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffsets": '{"TOPIC": {"0": 3}}'},
         "Partitions specified for Kafka start offsets don't match what are assigned."),
        ({"startingOffsetsByTimestamp": '{"TOPIC": {"0": 3}}'},
         "Partitions specified for Kafka timestamp based starting offsets don't match what are assigned."),
        ({"startingTimestamp": "1020"},
         "No offset matched from request of topic-partition TOPIC-1 and timestamp 1020."),
        ({"startingTimestamp": "1020", "startingOffsetsByTimestampStrategy": "latest", "endingTimestamp": "1010"},
         "The resolved start offset 20 is greater than the resolved end offset 10 for topic TOPIC partition 0."),
        ({"endingOffsets": '{"TOPIC": {"0": 31, "1": -1}}'},
         "Could not read records in offset [30, 31) for topic partition TOPIC-0"),
        ({"subscribePattern": "no-such-.*", "startingOffsets": '{"TOPIC": {"0": 3}}'},
         "Partitions specified for Kafka start offsets don't match what are assigned."),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_the_cluster_are_refused(
    bootstrap: str, topic: str, given: dict[str, str], message: str
) -> None:
    with pytest.raises((IllegalOption, DataLoss)) as refused:
        ranges(read_options(bootstrap, topic, given))
    assert message.replace("TOPIC", topic) in str(refused.value)


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ({}, {0: range(30), 1: range(5)}),
        ({"assign": '{"TOPIC": [1]}'}, {1: range(5)}),
        ({"subscribePattern": "TOPI[C]|nothing"}, {0: range(30), 1: range(5)}),
        ({"startingOffsets": '{"TOPIC": {"0": 28, "1": -2}}'}, {0: range(28, 30), 1: range(5)}),
        ({"endingOffsets": '{"TOPIC": {"0": 2, "1": -1}}'}, {0: range(2), 1: range(5)}),
        ({"startingTimestamp": "1003", "endingTimestamp": "1004"}, {0: range(3, 4), 1: range(3, 4)}),
        ({"startingTimestamp": "1020", "startingOffsetsByTimestampStrategy": "latest"}, {0: range(20, 30)}),
        ({"startingOffsetsByTimestamp": '{"TOPIC": {"0": 1025, "1": 1001}}',
          "endingOffsetsByTimestamp": '{"TOPIC": {"0": 1027, "1": 9999}}'}, {0: range(25, 27), 1: range(1, 5)}),
        ({"minPartitions": "7", "kafka.isolation.level": "read_committed"}, {0: range(30), 1: range(5)}),
    ],
)  # fmt: skip
def test_topics_starts_and_ends(bootstrap: str, topic: str, given: dict[str, str], counts: dict[int, range]) -> None:
    options = read_options(bootstrap, topic, given)
    found = [
        (each["partition"], each["offset"])
        for part in split_ranges(ranges(options), options.min_partitions)
        for batch in read_range(part, ["partition", "offset"], options)
        for each in batch.to_pylist()
    ]
    assert found == [(partition, offset) for partition, each in counts.items() for offset in each]


@pytest.fixture
def dead() -> Iterator[str]:
    """An address where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_planning_waits_once_for_a_cluster_that_cannot_be_reached(dead: str, caplog: pytest.LogCaptureFixture) -> None:
    """The client has tried again for default.api.timeout.ms: three such attempts would take three minutes."""
    short = {"kafka.default.api.timeout.ms": "300", "fetchOffset.retryIntervalMs": "60000"}
    with pytest.raises(TimedOut, match=dead):
        ranges(read_options(dead, "orders", short))
    assert not [message for message in caplog.messages if "to get offsets failed" in message]


@contextmanager
def attempt(number: int) -> Iterator[None]:
    context = TaskContext()
    context._attemptNumber = number
    TaskContext._setTaskContext(context)
    try:
        yield
    finally:
        TaskContext._setTaskContext(None)


def test_a_repeated_task_waits_half_as_long_and_says_why(dead: str) -> None:
    short = read_options(dead, "orders", {"kafkaConsumer.pollTimeoutMs": "400"})
    wanted = OffsetRange("orders", b"i" * 16, 0, 0, 5)
    for number, waited in [(0, "400"), (1, "200"), (3, "50")]:
        with attempt(number), pytest.raises(TimeoutError, match=rf"in {waited} milliseconds: .*{dead}"):
            list(read_range(wanted, ["offset"], short))


def test_a_repeated_task_of_a_sink_waits_for_a_part_of_the_default() -> None:
    keys: dict[str, object] = {"bootstrap.servers": "a:1"}
    with attempt(0):
        assert settings_of_attempt(keys) == keys
    with attempt(2):
        assert settings_of_attempt(keys) == {**keys, "max.block.ms": 15_000}
        assert settings_of_attempt({**keys, "max.block.ms": "5"}) == {**keys, "max.block.ms": "5"}
