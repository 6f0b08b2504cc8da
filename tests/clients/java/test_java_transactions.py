"""Transactions of Apache Kafka's Java client, on three nodes."""

import time
from collections.abc import Iterator

import pytest

from broker.client import NewTopic, SyncAdmin, TopicPartition
from tests.support.cluster_process import ClusterProcess, new_cluster
from tests.support.java_program import JavaError, JavaPrograms, JavaSession, java_session
from tests.support.job_process import wait_until

pytestmark = pytest.mark.clients

WITHIN_S = 60.0
PARTITIONS = 3
OVERRIDES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
}
GROUP_PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.fixture(scope="module")
def cluster(java_programs: JavaPrograms, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    with new_cluster(tmp_path_factory.mktemp("java"), overrides=OVERRIDES) as cluster:
        cluster.start()
        yield cluster
        cluster.stop()


@pytest.fixture(scope="module")
def java(java_programs: JavaPrograms, cluster: ClusterProcess) -> Iterator[JavaSession]:
    with java_session(java_programs, cluster.bootstrap) as session:
        yield session


@pytest.fixture
def created(cluster: ClusterProcess, topic: str) -> str:
    with SyncAdmin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS)]).raise_first()
    return topic


def read(java: JavaSession, topic: str, isolation: str = "read_committed") -> list[str]:
    """All values up to the end that a consumer with this isolation level sees, sorted."""
    java.open_consumer("reader", isolation_level=isolation)
    values = java.call("reader", "readAll", topic, PARTITIONS)
    java.call("reader", "close")
    return sorted(values)


def transact(java: JavaSession, producer: str, topic: str, values: list[str], end: str = "commitTransaction") -> None:
    java.call(producer, "beginTransaction")
    for number, value in enumerate(values):
        java.call(producer, "send", topic, number % PARTITIONS, value)
    java.call(producer, end)


def epochs(bootstrap: str, topic: str) -> set[int]:
    """The epochs with which the last transaction has written to the partitions of a topic."""
    partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    with SyncAdmin(bootstrap) as admin:
        described = admin.describe_producers(partitions).raise_first()
    return {producer.epoch for producers in described.values() for producer in producers}


def test_committed_records_are_read_and_aborted_ones_are_not(java: JavaSession, created: str) -> None:
    java.open_producer("producer", created)
    java.call("producer", "initTransactions")
    transact(java, "producer", created, ["a", "b", "c", "d"])
    transact(java, "producer", created, ["aborted", "aborted too"], "abortTransaction")
    transact(java, "producer", created, ["e"])

    assert read(java, created) == ["a", "b", "c", "d", "e"]
    assert read(java, created, "read_uncommitted") == ["a", "aborted", "aborted too", "b", "c", "d", "e"]


def test_open_transaction_holds_back_committed_reads(java: JavaSession, created: str) -> None:
    java.open_producer("producer", created)
    java.call("producer", "initTransactions")
    java.call("producer", "beginTransaction")
    java.call("producer", "send", created, 0, "open")
    assert read(java, created) == []
    assert read(java, created, "read_uncommitted") == ["open"]
    java.call("producer", "commitTransaction")
    assert read(java, created) == ["open"]


def test_kip_890_each_transaction_has_an_epoch_and_adds_its_partitions_by_writing(
    java: JavaSession, cluster: ClusterProcess, created: str
) -> None:
    """Under transaction.version 2, the Java client never sends AddPartitionsToTxn; EndTxn returns the next epoch."""
    java.open_producer("producer", created)
    java.call("producer", "initTransactions")
    last = None
    for number in range(4):
        java.call("producer", "beginTransaction")
        for partition in range(PARTITIONS):
            java.call("producer", "send", created, partition, f"{number}")
        (epoch,) = epochs(cluster.bootstrap, created)
        assert last is None or epoch == last + 1
        last = epoch
        with SyncAdmin(cluster.bootstrap) as admin:
            described = admin.describe_transactions([created]).value(created)
        assert described.state == "Ongoing"
        assert set(described.partitions) == {TopicPartition(created, index) for index in range(PARTITIONS)}
        java.call("producer", "commitTransaction" if number % 2 else "abortTransaction")
    assert read(java, created) == ["1"] * PARTITIONS + ["3"] * PARTITIONS


def test_second_instance_fences_the_first_and_aborts_its_transaction(java: JavaSession, created: str) -> None:
    for producer in ("first", "second"):
        java.open_producer(producer, created)
    java.call("first", "initTransactions")
    java.call("first", "beginTransaction")
    java.call("first", "send", created, 0, "zombie")
    java.call("second", "initTransactions")
    transact(java, "second", created, ["second"])

    with pytest.raises(JavaError, match=r"^(ProducerFenced|InvalidProducerEpoch)Exception"):
        java.call("first", "commitTransaction")
    transact(java, "second", created, ["second again"])
    assert read(java, created) == ["second", "second again"]


def let_time_out(java: JavaSession, topic: str) -> None:
    """Open a transaction of "producer" with a record, and wait until the coordinator has aborted it."""
    java.open_producer("producer", topic, transaction_timeout_ms=1_000)
    java.call("producer", "initTransactions")
    java.call("producer", "beginTransaction")
    java.call("producer", "send", topic, 0, "late")
    java.open_producer("other", f"{topic}-other")
    java.call("other", "initTransactions")
    transact(java, "other", topic, ["after it"])
    wait_until(lambda: read(java, topic) == ["after it"], WITHIN_S, "the transaction times out")


def test_transaction_that_has_timed_out_cannot_be_committed(java: JavaSession, created: str) -> None:
    let_time_out(java, created)
    with pytest.raises(JavaError, match=r"^InvalidTxnStateException"):  # as with Apache Kafka 4.4
        java.call("producer", "commitTransaction")
    java.call("producer", "close")
    java.open_producer("producer", created)
    java.call("producer", "initTransactions")
    transact(java, "producer", created, ["of the next producer"])
    assert read(java, created) == ["after it", "of the next producer"]


def test_kip_890_producer_whose_transaction_has_timed_out_goes_on_after_an_abort(
    java: JavaSession, created: str
) -> None:
    """The coordinator bumps the epoch once when it aborts, so the producer's own abort is a retry."""
    let_time_out(java, created)
    java.call("producer", "abortTransaction")
    transact(java, "producer", created, ["of the same producer"])
    assert read(java, created) == ["after it", "of the same producer"]


@GROUP_PROTOCOLS
def test_offsets_are_committed_with_their_transaction(java: JavaSession, created: str, protocol: str) -> None:
    java.open_producer("producer", created)
    java.call("producer", "initTransactions")
    transact(java, "producer", created, ["input"])
    consumer = f"consumer-{created}"
    java.open_consumer(consumer, group_id=created, group_protocol=protocol, isolation_level="read_committed")
    java.call(consumer, "subscribe", created)
    wait_until(lambda: java.call(consumer, "poll", 200) == ["input"], WITHIN_S, "the input")

    for offset, end, expected in ((1, "commitTransaction", 1), (7, "abortTransaction", 1), (2, "commitTransaction", 2)):
        java.call("producer", "beginTransaction")
        java.call("producer", "sendOffsetsToTransaction", consumer, created, 0, offset)
        java.call("producer", end)
        assert java.call(consumer, "committed", created, 0) == expected
    java.call(consumer, "close")


@GROUP_PROTOCOLS
def test_kip_447_offsets_of_a_replaced_member_are_refused(java: JavaSession, created: str, protocol: str) -> None:
    java.open_producer("producer", created)
    java.call("producer", "initTransactions")
    transact(java, "producer", created, ["input"])
    zombie, successor = f"zombie-{created}", f"successor-{created}"
    settings = {"group_id": created, "group_protocol": protocol, "max_poll_interval_ms": 1_000}
    java.open_consumer(zombie, **settings)
    java.call(zombie, "subscribe", created)
    wait_until(lambda: java.call(zombie, "poll", 200) == ["input"], WITHIN_S, "the input")
    time.sleep(1.5)  # longer than max.poll.interval.ms: the member leaves its group
    java.open_consumer(successor, **settings)
    java.call(successor, "subscribe", created)
    wait_until(lambda: java.call(successor, "poll", 200) == ["input"], WITHIN_S, "the successor owns the partition")

    java.call("producer", "beginTransaction")
    with pytest.raises(JavaError, match=r"^CommitFailedException"):
        java.call("producer", "sendOffsetsToTransaction", zombie, created, 0, 1)
    java.call("producer", "abortTransaction")
    java.call("producer", "beginTransaction")
    java.call("producer", "sendOffsetsToTransaction", successor, created, 0, 1)
    java.call("producer", "commitTransaction")
    assert java.call(successor, "committed", created, 0) == 1
    for consumer in (zombie, successor):
        java.call(consumer, "close")


def test_transactions_survive_the_death_of_their_coordinator(
    java: JavaSession, cluster: ClusterProcess, created: str
) -> None:
    java.open_producer("producer", created)
    java.call("producer", "initTransactions")
    transact(java, "producer", created, ["before"])
    java.call("producer", "beginTransaction")
    java.call("producer", "send", created, 0, "within")
    with SyncAdmin(cluster.bootstrap) as admin:
        node = cluster.nodes[admin.describe_transactions([created]).value(created).coordinator_id]
    node.kill()
    try:
        java.call("producer", "send", created, 1, "within too")
        java.call("producer", "commitTransaction")
        transact(java, "producer", created, ["after"])
    finally:
        node.start()
    assert read(java, created) == ["after", "before", "within", "within too"]
