"""Every client writes and reads with every compression that it supports: the same bytes in the same order, nothing
else.
"""

import time
from collections.abc import Callable

import pytest

from tests.support.aiokafka_driver import AiokafkaDriver
from tests.support.confluent_driver import ConfluentDriver, create_topic, watermarks
from tests.support.driver import COMPRESSIONS, Driver
from tests.support.kafka_python_driver import KafkaPythonDriver
from tests.support.kcat_driver import KcatDriver, kcat_path
from tests.support.records import ClientRecord, Consumed, Shape, awkward_records, by_partition
from tests.support.stored_batches import stored_compressions

pytestmark = pytest.mark.clients

PARTITIONS = 3
CROSS_RECORDS = 150

LIBRARIES: list[Driver] = [ConfluentDriver(), KafkaPythonDriver(), AiokafkaDriver()]
NEEDS_KCAT = pytest.mark.skipif(kcat_path() is None, reason="kcat is not on PATH")
DRIVERS = [
    *(pytest.param(driver, id=driver.name) for driver in LIBRARIES),
    pytest.param(KcatDriver(), id="kcat", marks=NEEDS_KCAT),
]


def write(bootstrap: str, topic: str, driver: Driver, shape: Shape, count: int, compression: str) -> list[ClientRecord]:
    create_topic(bootstrap, topic, PARTITIONS)
    now_ms = time.time_ns() // 1_000_000
    records = awkward_records(count, partitions=PARTITIONS, shape=shape, first_timestamp_ms=now_ms - count)
    driver.produce(bootstrap, topic, records, compression)
    return records


def assert_same(read: dict[int, list[Consumed]], written: list[ClientRecord]) -> None:
    for partition, expected in by_partition(written).items():
        consumed = read[partition]
        assert [one.offset for one in consumed] == list(range(len(expected)))
        for one, record in zip(consumed, expected, strict=True):
            found = one.record if record.timestamp_ms is not None else one.record._replace(timestamp_ms=None)
            assert found == record


def assert_nothing_beyond(bootstrap: str, topic: str, written: list[ClientRecord]) -> None:
    ends = [len(of) for _, of in sorted(by_partition(written).items())]
    assert watermarks(bootstrap, topic, PARTITIONS) == [(0, end) for end in ends]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("driver", DRIVERS)
def test_client_reads_its_own_records_byte_for_byte(
    driver: Driver,
    compression: str,
    bootstrap: str,
    topic: str,
    pytestconfig: pytest.Config,
    full: bool,
    figure: Callable[[str], None],
) -> None:
    count = pytestconfig.getoption("--records") or (100_000 if full else 5_000)
    began = time.monotonic()
    written = write(bootstrap, topic, driver, driver.shape, count, compression)
    wrote = time.monotonic()
    read = driver.consume(bootstrap, topic, {partition: len(of) for partition, of in by_partition(written).items()})
    figure(f"{count} records, {wrote - began:.2f} s to write, {time.monotonic() - wrote:.2f} s to read")
    assert_same(read, written)
    assert_nothing_beyond(bootstrap, topic, written)
    # A client that considers the broker too old for a compression silently sends uncompressed batches.
    assert compression in stored_compressions(bootstrap, topic)


@pytest.fixture(scope="module")
def written_topics(bootstrap: str) -> Callable[[Driver, Shape], dict[str, list[ClientRecord]]]:
    """Topics with a writer's records, one per compression, written once for all readers of the same shape."""
    made: dict[tuple[str, Shape], dict[str, list[ClientRecord]]] = {}

    def topics(driver: Driver, shape: Shape) -> dict[str, list[ClientRecord]]:
        if (driver.name, shape) not in made:
            stem = f"cross-{driver.name}-{time.time_ns()}"
            made[driver.name, shape] = {
                f"{stem}-{name}": write(bootstrap, f"{stem}-{name}", driver, shape, CROSS_RECORDS, name)
                for name in COMPRESSIONS
            }
        return made[driver.name, shape]

    return topics


@pytest.mark.parametrize("reader", DRIVERS)
@pytest.mark.parametrize("writer", DRIVERS)
def test_each_client_reads_the_records_of_every_other(
    writer: Driver,
    reader: Driver,
    bootstrap: str,
    written_topics: Callable[[Driver, Shape], dict[str, list[ClientRecord]]],
) -> None:
    readable = Shape(binary_headers=reader.shape.binary_headers)
    for topic, written in written_topics(writer, writer.shape & readable).items():
        counts = {partition: len(of) for partition, of in by_partition(written).items()}
        assert_same(reader.consume(bootstrap, topic, counts), written)
