"""Share groups of Apache Kafka's Java client (KIP-932), on three nodes."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.client import ConfigChange, ConfigResource, ConfigResourceType, NewTopic, SyncAdmin, SyncProducer
from tests.support.cluster_process import ClusterProcess, new_cluster
from tests.support.java_program import JavaError, JavaPrograms, JavaSession, java_session
from tests.support.job_process import wait_until

pytestmark = pytest.mark.clients

WITHIN_S = 60.0
POLL_MS = 500
LOCK_MS = 4_000
PARTITION, OFFSET, VALUE, DELIVERY_COUNT = range(4)
OVERRIDES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.share.min.record.lock.duration.ms": "1000",
}


@pytest.fixture(scope="module")
def cluster(java_programs: JavaPrograms, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    with new_cluster(tmp_path_factory.mktemp("java"), overrides=OVERRIDES) as cluster:
        cluster.start()
        yield cluster
        cluster.stop()


@pytest.fixture(scope="module")
def java(java_programs: JavaPrograms, cluster: ClusterProcess) -> Iterator[JavaSession]:
    with java_session(java_programs, cluster.bootstrap, main="ShareSession") as session:
        yield session


class Group:
    """A share group with a topic of its own, both of this name, and its members."""

    def __init__(self, java: JavaSession, bootstrap: str, name: str) -> None:
        self._java = java
        self._bootstrap = bootstrap
        self.name = name

    def configure(self, **configs: object) -> None:
        """`_` in the name of a config stands for `.`."""
        changes = [ConfigChange(key.replace("_", "."), str(value)) for key, value in configs.items()]
        with SyncAdmin(self._bootstrap) as admin:
            resource = ConfigResource(ConfigResourceType.GROUP, self.name)
            admin.incremental_alter_configs({resource: changes}).raise_first()

    def produce(self, *values: str, partition: int = 0) -> None:
        """Writes each value in a batch of its own: a member acquires whole batches."""
        with SyncProducer(self._bootstrap) as producer:
            for value in values:
                producer.send(self.name, value.encode(), partition=partition)

    def join(self, member: str, **settings: object) -> None:
        self._java.open_share_consumer(self._id(member), self.name, **settings)
        self.call(member, "subscribe", self.name)

    def call(self, member: str, method: str, *arguments: object) -> Any:
        return self._java.call(self._id(member), method, *arguments)

    def poll(self, member: str) -> list[Any]:
        """The records of the next poll that has some, in the order of their values."""
        found: list[Any] = []
        wait_until(lambda: bool(found.extend(self.call(member, "poll", POLL_MS)) or found), WITHIN_S, "records")
        return sorted(found, key=lambda record: record[VALUE])

    def poll_until(self, member: str, count: int, acknowledge: Callable[[Any], str]) -> list[Any]:
        """Acknowledges the records of each poll, and commits, until there were `count` of them."""
        found: list[Any] = []

        def has_all() -> bool:
            for record in self.call(member, "poll", POLL_MS):
                self.acknowledge(member, record, acknowledge(record))
                found.append(record)
            self.call(member, "commitSync")
            return len(found) >= count

        wait_until(has_all, WITHIN_S, f"{count} records")
        return found

    def acknowledge(self, member: str, record: Any, outcome: str) -> None:
        self.call(member, "acknowledge", record[PARTITION], record[OFFSET], outcome)

    def _id(self, member: str) -> str:
        return f"{self.name}-{member}"


@pytest.fixture
def group(java: JavaSession, cluster: ClusterProcess, topic: str) -> Group:
    with SyncAdmin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=1)]).raise_first()
    group = Group(java, cluster.bootstrap, topic)
    group.configure(share_auto_offset_reset="earliest")
    return group


def values_of(records: list[Any]) -> list[str]:
    return [record[VALUE] for record in records]


def lag(cluster: ClusterProcess, group: Group) -> int:
    with SyncAdmin(cluster.bootstrap) as admin:
        offsets = admin.list_share_group_offsets({group.name: None}).value(group.name).raise_first()
    return sum(each.lag for each in offsets.values() if each is not None and each.lag is not None)


def test_implicit_acknowledgement_accepts_the_records_of_a_poll_with_the_next_one(
    group: Group, cluster: ClusterProcess
) -> None:
    group.produce("a", "b", "c")
    group.join("member")
    received: list[Any] = []
    wait_until(lambda: received.extend(group.call("member", "poll", POLL_MS)) or len(received) >= 3, WITHIN_S, "three")
    assert sorted(values_of(received)) == ["a", "b", "c"]
    assert group.call("member", "poll", POLL_MS) == []
    wait_until(lambda: lag(cluster, group) == 0, WITHIN_S, "the records are accepted")
    group.call("member", "close")


def test_explicit_acknowledgements_accept_release_and_reject(group: Group, cluster: ClusterProcess) -> None:
    group.produce("accepted", "rejected", "released")
    group.join("member", share_acknowledgement_mode="explicit")

    def outcome(record: Any) -> str:
        if record[VALUE] == "released" and record[DELIVERY_COUNT] == 1:
            return "RELEASE"
        return "REJECT" if record[VALUE] == "rejected" else "ACCEPT"

    received = group.poll_until("member", 4, outcome)
    deliveries = Counter(values_of(received))
    assert deliveries == {"accepted": 1, "rejected": 1, "released": 2}
    assert [each[DELIVERY_COUNT] for each in received if each[VALUE] == "released"] == [1, 2]
    assert lag(cluster, group) == 0
    group.call("member", "close")


def test_records_that_are_not_acknowledged_explicitly_block_the_next_poll(group: Group) -> None:
    group.produce("a")
    group.join("member", share_acknowledgement_mode="explicit")
    (record,) = group.poll("member")
    with pytest.raises(JavaError, match=r"^IllegalStateException"):
        group.call("member", "poll", POLL_MS)
    group.acknowledge("member", record, "ACCEPT")
    assert group.call("member", "commitSync") == {"0": None}
    group.call("member", "close")


def test_kip_1222_renewed_lock_outlasts_its_duration(group: Group) -> None:
    """The other member would get the record within the three waits otherwise."""
    group.configure(share_record_lock_duration_ms=LOCK_MS)
    group.produce("slow")
    group.join("worker", share_acknowledgement_mode="explicit")
    (record,) = group.poll("worker")
    group.join("other", share_acknowledgement_mode="explicit")
    for _ in range(3):
        group.acknowledge("worker", record, "RENEW")
        assert group.call("worker", "commitSync") == {"0": None}
        assert group.call("worker", "lockTimeoutMs") == LOCK_MS
        assert group.call("other", "poll", LOCK_MS // 2) == []
        (renewed,) = group.poll("worker")
        assert renewed[VALUE] == "slow"
    group.acknowledge("worker", record, "ACCEPT")
    assert group.call("worker", "commitSync") == {"0": None}
    for member in ("worker", "other"):
        group.call(member, "close")


def test_record_whose_lock_has_expired_is_delivered_to_another_member(group: Group) -> None:
    group.configure(share_record_lock_duration_ms=LOCK_MS)
    group.produce("slow")
    group.join("worker", share_acknowledgement_mode="explicit")
    (record,) = group.poll("worker")
    group.join("other", share_acknowledgement_mode="explicit")
    (again,) = group.poll("other")
    assert (again[VALUE], again[DELIVERY_COUNT]) == ("slow", 2)
    group.acknowledge("worker", record, "ACCEPT")
    assert group.call("worker", "commitSync") == {"0": "InvalidRecordStateException"}
    group.acknowledge("other", again, "ACCEPT")
    assert group.call("other", "commitSync") == {"0": None}
    for member in ("worker", "other"):
        group.call(member, "close")


def test_commit_callback_gets_the_offsets_of_each_partition(group: Group) -> None:
    group.produce("a", "b")
    group.join("member", share_acknowledgement_mode="explicit")
    group.call("member", "setCallback")
    group.poll_until("member", 2, lambda record: "ACCEPT")
    called: list[Any] = []

    def has_all() -> bool:
        group.call("member", "poll", POLL_MS)
        called.extend(group.call("member", "callbacks"))
        return sum(len(offsets) for _, offsets, _ in called) >= 2

    wait_until(has_all, WITHIN_S, "the callback is called")
    assert sorted(offset for _, offsets, _ in called for offset in offsets) == [0, 1]
    assert {(partition, error) for partition, _, error in called} == {(0, None)}
    group.call("member", "close")


@pytest.mark.parametrize(
    ("level", "expected"),
    [("read_committed", ["after", "committed"]), ("read_uncommitted", ["aborted", "after", "committed"])],
)
def test_isolation_level_of_the_group_decides_on_aborted_records(
    group: Group, cluster: ClusterProcess, level: str, expected: list[str]
) -> None:
    group.configure(share_isolation_level=level)
    with SyncProducer(cluster.bootstrap, transactional_id=group.name) as producer:
        producer.init_transactions()
        for value, commits in (("committed", True), ("aborted", False)):
            producer.begin_transaction()
            producer.send(group.name, value.encode())
            (producer.commit_transaction if commits else producer.abort_transaction)()
    group.produce("after")
    group.join("member", share_acknowledgement_mode="explicit")
    received = group.poll_until("member", len(expected), lambda record: "ACCEPT")
    assert sorted(values_of(received)) == expected
    assert group.call("member", "poll", POLL_MS) == []
    group.call("member", "close")


def test_kip_1206_record_limit_bounds_the_records_of_a_poll(group: Group, cluster: ClusterProcess) -> None:
    """All records come in one batch, of which a member with this limit acquires a part."""
    with SyncProducer(cluster.bootstrap, linger_ms=50) as producer:
        for number in range(10):
            producer.send_soon(group.name, b"%02d" % number)
    group.join("member", share_acknowledgement_mode="explicit", share_acquire_mode="record_limit", max_poll_records=3)
    received: list[Any] = []
    while len(received) < 10:
        polled = group.poll("member")
        assert len(polled) <= 3
        for record in polled:
            group.acknowledge("member", record, "ACCEPT")
        group.call("member", "commitSync")
        received += polled
    assert values_of(received) == [f"{number:02d}" for number in range(10)]
    group.call("member", "close")


def test_two_members_divide_the_records_of_one_partition(group: Group) -> None:
    """Each poll acquires one record, which the other member does not get."""
    expected = [f"{number:02d}" for number in range(20)]
    group.produce(*expected)
    members = ("first", "second")
    for member in members:
        group.join(member, share_acknowledgement_mode="explicit", share_acquire_mode="record_limit", max_poll_records=1)
    received: dict[str, list[str]] = {member: [] for member in members}

    def has_all() -> bool:
        for member in members:
            for record in group.call(member, "poll", POLL_MS):
                received[member].append(record[VALUE])
                group.acknowledge(member, record, "ACCEPT")
            group.call(member, "commitSync")
        return sum(map(len, received.values())) >= len(expected)

    wait_until(has_all, WITHIN_S, "all records")
    assert sorted(received["first"] + received["second"]) == expected
    assert all(received.values())
    for member in members:
        group.call(member, "close")


def test_records_of_a_member_that_leaves_are_delivered_to_another_one(group: Group) -> None:
    group.produce("unfinished")
    group.join("leaving", share_acknowledgement_mode="explicit")
    assert values_of(group.poll("leaving")) == ["unfinished"]
    group.call("leaving", "close")
    group.join("other", share_acknowledgement_mode="explicit")
    (again,) = group.poll("other")
    assert again[VALUE] == "unfinished"
    group.acknowledge("other", again, "ACCEPT")
    assert group.call("other", "commitSync") == {"0": None}
    group.call("other", "close")


def test_records_are_delivered_and_acknowledged_after_the_death_of_the_leader(
    group: Group, cluster: ClusterProcess
) -> None:
    group.produce("accepted", "released")
    group.join("member", share_acknowledgement_mode="explicit")
    received = group.poll_until("member", 2, lambda record: "ACCEPT" if record[VALUE] == "accepted" else "RELEASE")
    assert {record[VALUE] for record in received} == {"accepted", "released"}
    with SyncAdmin(cluster.bootstrap) as admin:
        leader = admin.describe_topics([group.name]).value(group.name).partitions[0].leader
    node = cluster.nodes[leader]
    node.kill()
    try:
        group.produce("after")
        again = group.poll_until("member", 2, lambda record: "ACCEPT")
    finally:
        node.start()
    counts = {record[VALUE]: record[DELIVERY_COUNT] for record in again}
    assert set(counts) == {"released", "after"}
    assert counts["released"] >= 2
    wait_until(lambda: lag(cluster, group) == 0, WITHIN_S, "all records are finished")
    group.call("member", "close")
