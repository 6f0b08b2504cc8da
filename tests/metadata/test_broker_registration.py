"""Broker registrations and restarts; blocks of producer ids."""

from random import Random

import pytest

from metadata.controller import ControllerConfig, NewTopic, ProducerIdsBlock
from metadata.controller.producer_ids import allocate_producer_ids
from metadata.ids import UNASSIGNED_DIRECTORY
from metadata.image import MetadataImage, PartitionImage
from metadata.protocol import ErrorCode, KafkaError
from metadata.records import NO_LEADER, ProducerIdsRecord, VersionRange
from tests.support.metadata import CLUSTER_ID, Cluster, registration


def with_topic(brokers: int = 1, factor: int = 1) -> Cluster:
    cluster = Cluster(brokers)
    cluster.decide(cluster.topics.create(cluster.image, [NewTopic("t", 3, factor)]))
    return cluster


def partitions(image: MetadataImage) -> list[PartitionImage]:
    return list(image.topics.by_name["t"].partitions.values())


def test_a_new_cluster_starts_with_its_feature_levels() -> None:
    assert Cluster(0).image.features == {
        "metadata.version": 33,
        "kraft.version": 1,
        "group.version": 1,
        "eligible.leader.replicas.version": 1,
        "transaction.version": 2,
        "share.version": 2,
    }


def test_a_broker_joins_fenced_at_the_offset_of_its_record() -> None:
    cluster = Cluster(0)
    next_offset = len(cluster.log)
    broker_epoch = cluster.register(1, rack="a")
    assert broker_epoch == next_offset
    broker = cluster.image.cluster.brokers[1]
    assert (broker.fenced, broker.broker_epoch, broker.rack) == (True, broker_epoch, "a")
    assert broker.end_points["PLAINTEXT"].port == 9092
    cluster.heartbeat(1)
    assert cluster.image.cluster.is_active(1)


def test_a_process_that_registers_again_keeps_its_epoch() -> None:
    cluster = Cluster()
    broker = cluster.image.cluster.brokers[1]
    assert cluster.register(1, incarnation_id=broker.incarnation_id, rack="new") == broker.broker_epoch
    after = cluster.image.cluster.brokers[1]
    assert (after.fenced, after.rack) == (False, "new")


def test_new_incarnation_leads_only_after_it_is_unfenced_with_a_higher_epoch() -> None:
    """KIP-320: consumers of records that a crash lost have to detect the truncation by the leader epoch."""
    cluster = with_topic(2)
    led = [partition.leader == 1 for partition in partitions(cluster.image)]
    assert True in led
    cluster.sessions.connection_lost(1, cluster.now_ms)
    old = cluster.image.cluster.brokers[1].broker_epoch
    assert cluster.register(1) > old
    assert [partition.leader == NO_LEADER for partition in partitions(cluster.image)] == led
    cluster.heartbeat(1)
    after = partitions(cluster.image)
    assert [partition.leader for partition in after] == [1 if mine else 2 for mine in led]
    assert [partition.leader_epoch for partition in after] == [2 if mine else 0 for mine in led]


def test_a_clean_restart_costs_no_partition_records() -> None:
    cluster = with_topic()
    asked = registration(1, cluster.rng, previous_broker_epoch=cluster.image.cluster.brokers[1].broker_epoch)
    decision = cluster.brokers.register(cluster.image, cluster.sessions, asked, len(cluster.log), 0)
    assert len(decision.records) == 1
    cluster.decide(decision)
    assert [partition.leader_epoch for partition in partitions(cluster.image)] == [0, 0, 0]
    assert cluster.image.cluster.is_active(1)


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        (
            {"cluster_id": "other"},
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {CLUSTER_ID}, but got cluster ID other",
        ),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION, "No directories specified in request"),
        ({"log_dirs": [bytes(15) + b"\x02"]}, ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request"),
        ({"log_dirs": [b"d" * 16] * 2}, ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request"),
        (
            {"features": {"metadata.version": VersionRange(1, 29), "kraft.version": VersionRange(0, 1)}},
            ErrorCode.UNSUPPORTED_VERSION,
            "Unable to register because the broker does not support finalized version 33 of metadata.version. The "
            "broker wants a version between 1 and 29, inclusive.",
        ),
        (
            {"features": {"metadata.version": VersionRange(1, 33)}},
            ErrorCode.UNSUPPORTED_VERSION,
            "Unable to register because the broker does not support finalized version 1 of kraft.version. The broker "
            "wants a version between 0 and 0, inclusive.",
        ),
    ],
)
def test_invalid_registrations_are_refused(changes: dict[str, object], code: ErrorCode, message: str) -> None:
    cluster = Cluster()
    with pytest.raises(KafkaError) as refused:
        cluster.register(2, **changes)
    assert (refused.value.code, refused.value.message) == (code, message)
    assert 2 not in cluster.image.cluster.brokers


def test_a_log_directory_belongs_to_one_broker() -> None:
    cluster = Cluster()
    taken = cluster.image.cluster.brokers[1].log_dirs
    with pytest.raises(KafkaError, match="INVALID_REGISTRATION: Broker 1 is already registered with directory"):
        cluster.register(2, log_dirs=taken)


@pytest.mark.parametrize(
    ("broker_id", "broker_epoch", "message"),
    [
        (9, 0, "No broker registration found for broker id 9"),
        (1, 77, "Expected broker epoch 7, but got broker epoch 77"),
    ],
)
def test_request_with_a_stale_broker_epoch_is_refused(broker_id: int, broker_epoch: int, message: str) -> None:
    cluster = Cluster()
    with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH") as refused:
        allocate_producer_ids(cluster.image, broker_id, broker_epoch)
    assert refused.value.message == message


def test_blocks_of_producer_ids_follow_each_other() -> None:
    cluster = Cluster()
    broker_epoch = cluster.image.cluster.brokers[1].broker_epoch
    blocks = [cluster.decide(allocate_producer_ids(cluster.image, 1, broker_epoch)) for _ in range(3)]
    assert blocks == [ProducerIdsBlock(0, 1000), ProducerIdsBlock(1000, 1000), ProducerIdsBlock(2000, 1000)]
    assert cluster.image.next_producer_id == 3000


def test_producer_ids_end_before_int64_does() -> None:
    cluster = Cluster()
    broker_epoch = cluster.image.cluster.brokers[1].broker_epoch
    last = 2**63 - 1001
    cluster.take([ProducerIdsRecord(broker_id=1, broker_epoch=broker_epoch, next_producer_id=last)])
    assert allocate_producer_ids(cluster.image, 1, broker_epoch).response == ProducerIdsBlock(last, 1000)
    cluster.take([ProducerIdsRecord(broker_id=1, broker_epoch=broker_epoch, next_producer_id=last + 1)])
    with pytest.raises(KafkaError, match="Exhausted all producerIds"):
        allocate_producer_ids(cluster.image, 1, broker_epoch)


def test_broker_with_several_log_directories_chooses_the_directory() -> None:
    cluster = Cluster(0, ControllerConfig(cluster_id=CLUSTER_ID))
    rng = Random(9)
    cluster.join(1, log_dirs=[rng.randbytes(16), rng.randbytes(16)])
    cluster.decide(cluster.topics.create(cluster.image, [NewTopic("t")]))
    assert partitions(cluster.image)[0].directories == (UNASSIGNED_DIRECTORY,)
