"""Acknowledged data and changes survive a restart, after a clean stop and after a kill."""

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType

from tests.support.confluent_driver import create_topic, watermarks
from tests.support.counted_load import CountedLoad
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

End = Callable[[NodeProcess], None]


def test_metadata_that_was_answered_outlives_a_kill(new_node: Callable[..., NodeProcess]) -> None:
    node = new_node()
    node.start()
    topic_ids: dict[str, str] = {}
    for number in range(3):
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        kept, pending_removals = f"kept-{number}", f"pending_removals-{number}"
        create_topic(node.bootstrap, kept, 2)
        create_topic(node.bootstrap, pending_removals, 1)
        change = ConfigEntry("retention.ms", "777000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, kept, incremental_configs=[change])
        admin.incremental_alter_configs([resource])[resource].result(30)
        topic_ids[kept] = str(admin.describe_topics(TopicCollection([kept]))[kept].result(30).topic_id)
        admin.delete_topics([pending_removals])[pending_removals].result(30)
        node.kill()

        node.start()
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        assert sorted(admin.list_topics(timeout=30).topics) == sorted(topic_ids)
        described = admin.describe_topics(TopicCollection(list(topic_ids)))
        assert {name: str(future.result(30).topic_id) for name, future in described.items()} == topic_ids
        resource = ConfigResource(ResourceType.TOPIC, kept)
        assert admin.describe_configs([resource])[resource].result(30)["retention.ms"].value == "777000"
    node.stop()


def test_deleted_records_stay_deleted_over_a_clean_restart(new_node: Callable[..., NodeProcess], topic: str) -> None:
    node = new_node()
    node.start()
    create_topic(node.bootstrap, topic, 1)
    load = CountedLoad(node.bootstrap, topic, 1)
    load.send(100)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 40)]).values()
    assert deleted.result(30).low_watermark == 40
    node.stop()
    node.start()
    assert watermarks(node.bootstrap, topic, 1) == [(40, 100)]
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    partition = TopicPartition(topic, 0)
    assert admin.list_offsets({partition: OffsetSpec.for_timestamp(0)})[partition].result(30).offset == 40
    node.stop()


@pytest.mark.parametrize("end", [NodeProcess.stop, NodeProcess.kill], ids=["stop", "kill"])
def test_an_idempotent_producer_goes_on_where_it_was(
    new_node: Callable[..., NodeProcess], topic: str, end: End
) -> None:
    """The producer's session outlives the node: its sequence numbers are known again, whatever was in flight."""
    node = new_node()
    node.start()
    create_topic(node.bootstrap, topic, 2)
    load = CountedLoad(node.bootstrap, topic, 2)
    load.send(1_000)
    sender = threading.Thread(target=load.send, args=(20_000,), daemon=True)
    sender.start()
    load.wait_for_delivery(3_000)
    end(node)
    node.start()
    sender.join()
    load.send(1_000)
    load.assert_all_delivered()
    load.assert_read_exactly_once(node.bootstrap)
    node.stop()
