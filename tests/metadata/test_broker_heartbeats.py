"""Heartbeats: unfencing, fencing, controlled shutdown (KIP-631, KIP-841), failed directories (KIP-858)."""

from random import Random

import pytest

from metadata.controller import BrokerHeartbeat, ConfigChange, NewPartitions, NewTopic, TopicToDelete
from metadata.controller.partitions import create_partitions
from metadata.image import ConfigResource, MetadataDelta, MetadataImage, PartitionImage
from metadata.image.snapshot import image_records
from metadata.protocol import ConfigOperation, ConfigResourceType, ErrorCode, KafkaError
from metadata.records import LEADER_RECOVERING, NO_LEADER, FeatureLevelRecord
from tests.support.metadata import Cluster


def with_replicas(brokers: int, *assignments: tuple[int, ...], min_insync_replicas: int = 1) -> Cluster:
    """Create a topic with one partition for each assignment: t0, t1, ..."""
    cluster = Cluster(brokers)
    configs = {"min.insync.replicas": str(min_insync_replicas)}
    topics = [
        NewTopic(f"t{number}", assignments=[(0, assignment)], configs=configs)
        for number, assignment in enumerate(assignments)
    ]
    created = cluster.decide(cluster.topics.create(cluster.image, topics))
    assert [topic.error for topic in created] == [None] * len(assignments)
    return cluster


def partitions(cluster: Cluster) -> list[PartitionImage]:
    topics = cluster.image.topics.by_name
    return [topics[f"t{number}"].partitions[0] for number in range(len(topics))]


def partition(cluster: Cluster) -> PartitionImage:
    return partitions(cluster)[0]


def led(cluster: Cluster) -> list[int]:
    return [each.leader for each in partitions(cluster)]


def test_a_broker_is_unfenced_when_it_has_replayed_its_own_registration() -> None:
    cluster = Cluster(0)
    epoch = cluster.register(1)
    behind = cluster.heartbeat(1, current_metadata_offset=epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    not_ready = cluster.heartbeat(1, current_metadata_offset=epoch, want_fence=True)
    assert (not_ready.is_caught_up, not_ready.is_fenced) == (True, True)
    ready = cluster.heartbeat(1, current_metadata_offset=epoch)
    assert (ready.is_caught_up, ready.is_fenced) == (True, False)
    assert cluster.image.cluster.is_active(1)


def test_a_heartbeat_that_changes_nothing_makes_no_record() -> None:
    cluster = Cluster(1)
    end = cluster.image.offset
    for _ in range(3):
        reply = cluster.heartbeat(1)
        assert (reply.is_fenced, reply.should_shut_down) == (False, False)
    assert cluster.image.offset == end


def test_request_with_a_stale_broker_epoch_is_refused() -> None:
    cluster = Cluster(1)
    with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
        cluster.heartbeat(1, broker_epoch=77)
    stranger = BrokerHeartbeat(
        broker_id=9, broker_epoch=0, current_metadata_offset=0, want_fence=False, want_shut_down=False
    )
    with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
        cluster.heartbeats.heartbeat(cluster.image, cluster.sessions, stranger)


def test_fencing_removes_the_broker_as_a_leader_in_the_same_batch() -> None:
    cluster = with_replicas(3, (1, 2), (1, 3), (2, 1), (3, 2))
    cluster.fence(1)
    assert led(cluster) == [2, 3, 2, 3]
    assert not any(1 in each.isr for each in partitions(cluster))
    assert not cluster.image.cluster.is_active(1)
    end = cluster.image.offset
    cluster.fence(1)
    assert cluster.image.offset == end


def test_a_broker_may_ask_to_be_fenced() -> None:
    cluster = with_replicas(2, (1, 2))
    assert cluster.heartbeat(1, want_fence=True).is_fenced
    assert led(cluster) == [2]


def test_unfenced_broker_is_elected_in_leaderless_partitions_if_it_was_in_sync() -> None:
    cluster = with_replicas(3, (1, 2), (1,), (3, 2))
    cluster.fence(2)
    cluster.fence(1)
    assert led(cluster) == [NO_LEADER, NO_LEADER, 3]
    cluster.heartbeat(2)
    assert led(cluster) == [NO_LEADER, NO_LEADER, 3], "it left the ISR before the last leader did"
    cluster.heartbeat(1)
    assert led(cluster) == [1, 1, 3]


def test_controlled_shutdown_ends_when_all_other_brokers_have_replayed_it() -> None:
    """KIP-841."""
    cluster = with_replicas(3, (1, 2), (1, 3))
    for broker in (1, 2, 3):
        cluster.heartbeat(broker)
    first = cluster.heartbeat(1, want_shut_down=True)
    handed_over = cluster.image.offset
    assert (first.is_fenced, first.should_shut_down) == (False, False)
    assert led(cluster) == [2, 3]
    assert partition(cluster).isr == (2,)
    assert not cluster.image.cluster.brokers[1].is_active
    cluster.heartbeat(2, current_metadata_offset=handed_over)
    cluster.heartbeat(3, current_metadata_offset=handed_over - 1)
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    cluster.heartbeat(3, current_metadata_offset=handed_over)
    last = cluster.heartbeat(1, want_shut_down=True)
    assert (last.is_fenced, last.should_shut_down) == (True, True)
    assert cluster.image.cluster.brokers[1].fenced


def test_broker_without_leaderships_may_stop_at_once() -> None:
    cluster = with_replicas(2, (2, 1))
    reply = cluster.heartbeat(1, want_shut_down=True)
    assert (reply.is_fenced, reply.should_shut_down) == (True, True)
    assert partition(cluster).isr == (2,)


def test_fenced_broker_may_stop_at_once() -> None:
    cluster = Cluster(2)
    cluster.fence(1)
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down


def test_broker_in_controlled_shutdown_is_not_unfenced() -> None:
    """KIP-841: the broker becomes active again only with a new registration."""
    cluster = with_replicas(3, (1, 2))
    cluster.heartbeat(1, want_shut_down=True)
    cluster.fence(1)
    assert cluster.heartbeat(1).is_fenced
    cluster.join(1)
    assert cluster.image.cluster.is_active(1)


def test_last_active_broker_stops_at_once_and_keeps_its_leaderships() -> None:
    """It has no broker to hand over to, and a clean restart loses no records."""
    cluster = with_replicas(2, (1, 2), (1,))
    cluster.fence(2)
    before, end = cluster.image.topics, cluster.image.offset
    reply = cluster.heartbeat(1, want_shut_down=True)
    assert (reply.is_fenced, reply.should_shut_down) == (False, True)
    assert cluster.image.offset == end
    epoch = cluster.register(1, previous_broker_epoch=cluster.image.cluster.brokers[1].broker_epoch)
    assert epoch == cluster.image.offset == end + 1
    assert cluster.image.cluster.is_active(1)
    assert cluster.image.topics is before


def test_a_clean_restart_of_a_broker_that_was_fenced_begins_fenced() -> None:
    cluster = with_replicas(2, (1, 2))
    old = cluster.image.cluster.brokers[1].broker_epoch
    cluster.fence(1)
    cluster.register(1, previous_broker_epoch=old)
    assert cluster.image.cluster.brokers[1].fenced


def test_a_broker_id_in_use_is_refused_to_another_process() -> None:
    cluster = Cluster(1)
    cluster.now_ms = 8_999
    with pytest.raises(
        KafkaError, match=r"DUPLICATE_BROKER_REGISTRATION: Another broker is registered with that broker id\."
    ):
        cluster.register(1)
    cluster.now_ms = 9_000
    cluster.register(1)


@pytest.mark.parametrize("gone", ["fenced", "shutting down", "suspect", "never heard of by this controller"])
def test_broker_id_is_free_once_its_process_is_known_to_be_gone(gone: str) -> None:
    cluster = with_replicas(2, (1, 2))
    match gone:
        case "fenced":
            cluster.fence(1)
        case "shutting down":
            cluster.heartbeat(1, want_shut_down=True)
        case "suspect":
            cluster.sessions.connection_lost(1, cluster.now_ms)
        case _:
            cluster.sessions.reset(cluster.image.cluster, cluster.image.offset, cluster.now_ms)
    cluster.register(1)
    assert cluster.image.cluster.brokers[1].fenced
    assert led(cluster) == [2]


def test_the_same_process_may_register_again_at_any_time() -> None:
    cluster = Cluster(1)
    broker = cluster.image.cluster.brokers[1]
    assert cluster.register(1, incarnation_id=broker.incarnation_id) == broker.broker_epoch
    assert cluster.image.cluster.is_active(1)


def test_a_crash_takes_a_replica_out_of_isr_and_elr() -> None:
    """KIP-966: the broker may have lost its page cache."""
    cluster = with_replicas(3, (1, 2, 3), min_insync_replicas=2)
    cluster.fence(1)
    cluster.fence(2)
    assert (partition(cluster).isr, partition(cluster).eligible_leader_replicas) == ((3,), (2,))
    cluster.register(2)
    assert (partition(cluster).isr, partition(cluster).eligible_leader_replicas) == ((3,), ())
    cluster.sessions.connection_lost(3, 0)
    cluster.register(3)
    after = partition(cluster)
    assert (after.isr, after.eligible_leader_replicas, after.last_known_elr) == ((), (), (3,))
    cluster.heartbeat(2)
    assert partition(cluster).leader == NO_LEADER
    cluster.heartbeat(3)
    after = partition(cluster)
    assert (after.leader, after.isr, after.last_known_elr) == (3, (3,), ())
    assert after.leader_recovery_state == LEADER_RECOVERING


def test_a_clean_shutdown_keeps_a_replica_eligible() -> None:
    """KIP-966."""
    cluster = with_replicas(3, (1, 2, 3), min_insync_replicas=2)
    for broker in (1, 2):
        cluster.fence(broker)
    cluster.register(2, previous_broker_epoch=cluster.image.cluster.brokers[2].broker_epoch)
    assert partition(cluster).eligible_leader_replicas == (2,)


def test_unregistered_broker_keeps_its_replicas_assigned() -> None:
    cluster = with_replicas(3, (1, 2), (3, 1), min_insync_replicas=2)
    cluster.decide(cluster.brokers.unregister(cluster.image, 1))
    assert list(cluster.image.cluster.brokers) == [2, 3]
    assert led(cluster) == [2, 3]
    after = [(each.replicas, each.isr, each.eligible_leader_replicas) for each in partitions(cluster)]
    assert after == [((1, 2), (2,), ()), ((3, 1), (3,), ())]
    with pytest.raises(KafkaError, match="BROKER_ID_NOT_REGISTERED: Broker ID 1 is not currently registered"):
        cluster.brokers.unregister(cluster.image, 1)


def test_failed_directory_loses_only_its_own_partitions() -> None:
    """KIP-858."""
    cluster = Cluster(0)
    rng = Random(3)
    dirs = [rng.randbytes(16), rng.randbytes(16)]
    cluster.join(1, log_dirs=dirs[:1])
    cluster.join(2)
    topics = [NewTopic(f"t{number}", assignments=[(0, on)]) for number, on in enumerate([(1, 2), (1,)])]
    cluster.decide(cluster.topics.create(cluster.image, topics))
    incarnation = cluster.image.cluster.brokers[1].incarnation_id
    cluster.register(1, incarnation_id=incarnation, log_dirs=dirs)
    cluster.heartbeat(1, offline_log_dirs=[dirs[1]])
    assert led(cluster) == [1, 1]
    cluster.heartbeat(1, offline_log_dirs=dirs)
    assert led(cluster) == [2, NO_LEADER]
    assert cluster.image.cluster.brokers[1].log_dirs == ()
    end = cluster.image.offset
    cluster.heartbeat(1, offline_log_dirs=dirs)
    assert cluster.image.offset == end


def test_cost_of_a_broker_change_depends_on_its_replicas_only() -> None:
    """The index by broker is updated with every change of replicas."""
    cluster = with_replicas(3, (1, 2), (3,), (2, 3))

    def found(broker: int) -> dict[str, list[int]]:
        return {topic.name: list(ids) for topic, ids in cluster.image.topics.replicas_on(broker)}

    assert [found(broker) for broker in (1, 2, 3)] == [{"t0": [0]}, {"t0": [0], "t2": [0]}, {"t1": [0], "t2": [0]}]
    grown = [NewPartitions("t2", 3, [(1, 2), (3, 1)])]
    cluster.decide(create_partitions(cluster.image, grown, cluster.rng))
    assert [found(broker)["t2"] for broker in (1, 2, 3)] == [[1, 2], [0, 1], [0, 2]]
    cluster.decide(cluster.topics.delete(cluster.image, [TopicToDelete("t2"), TopicToDelete("t0")]))
    assert [found(broker) for broker in (1, 2, 3, 4)] == [{}, {}, {"t1": [0]}, {}]


def test_cordoned_log_directories_are_kept_until_a_heartbeat_names_others_kip_1066() -> None:
    cluster = Cluster(2)
    log_dirs = cluster.image.cluster.brokers[1].log_dirs
    cluster.heartbeat(1, cordoned_log_dirs=log_dirs)
    end = cluster.image.offset
    cluster.heartbeat(1, cordoned_log_dirs=log_dirs)
    cluster.heartbeat(1)  # a broker that does not know of cordoning
    assert cluster.image.offset == end
    cluster.join(1)  # a restart
    assert cluster.image.cluster.brokers[1].is_cordoned
    snapshot = MetadataDelta(MetadataImage())
    snapshot.replay(list(image_records(cluster.image)))
    assert snapshot.apply(cluster.image.offset).cluster == cluster.image.cluster
    cluster.heartbeat(1, cordoned_log_dirs=[])
    assert not cluster.image.cluster.brokers[1].is_cordoned


def test_log_directories_are_cordoned_from_metadata_version_30_on_kip_1066() -> None:
    cluster = Cluster(1)
    cluster.take([FeatureLevelRecord(name="metadata.version", feature_level=29)])
    cluster.heartbeat(1, cordoned_log_dirs=cluster.image.cluster.brokers[1].log_dirs)
    assert not cluster.image.cluster.brokers[1].is_cordoned
    change = ConfigChange("cordoned.log.dirs", ConfigOperation.SET, "*")
    decision = cluster.configs.incremental_alter(
        cluster.image, [(ConfigResource(ConfigResourceType.BROKER, "1"), [change])]
    )
    error = decision.response[0].error
    assert error is not None
    assert error.code is ErrorCode.INVALID_CONFIG
    assert "cannot be set because it requires metadata.version >= 4.3-IV0" in str(error)
    assert decision.records == []
