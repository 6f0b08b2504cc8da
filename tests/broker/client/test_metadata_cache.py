"""How metadata responses are merged."""

from broker.client.metadata_cache import MetadataCache
from broker.client.types import Node, TopicPartition
from broker.wire.api.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.wire.errors import ErrorCode

ORDERS = TopicPartition("orders", 0)


def response(
    *, leader: int = 1, epoch: int = 5, topic_id: bytes = b"a" * 16, error: int = 0, name: str = "orders"
) -> MetadataResponse:
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2], isr_nodes=[1, 2]
    )
    topic = MetadataResponseTopic(
        name=name, topic_id=topic_id, error_code=error, partitions=[] if error else [partition]
    )
    brokers = [MetadataResponseBroker(node_id=number, host="h", port=9092) for number in (1, 2)]
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=[topic])


def cache_of(*responses: MetadataResponse) -> MetadataCache:
    cache = MetadataCache()
    for each in responses:
        cache.update(each, is_complete=False)
    return cache


def test_kip_320_an_older_leader_epoch_does_not_replace_a_newer_one() -> None:
    assert cache_of(response(leader=1, epoch=5), response(leader=2, epoch=4)).leader(ORDERS) == (1, 5)
    assert cache_of(response(leader=1, epoch=5), response(leader=2, epoch=5)).leader(ORDERS) == (2, 5)


def test_a_recreated_topic_begins_with_its_own_epochs() -> None:
    cache = cache_of(response(epoch=5), response(leader=2, epoch=0, topic_id=b"b" * 16))
    assert cache.leader(ORDERS) == (2, 0)
    assert cache.topic_name(b"a" * 16) is None
    assert cache.topic_name(b"b" * 16) == "orders"


def test_a_topic_that_is_gone_has_an_error_and_no_partitions() -> None:
    cache = cache_of(response(), response(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert cache.leader(ORDERS) is None
    topic = cache.topic("orders")
    assert topic is not None
    assert topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_complete_response_drops_the_topics_that_it_leaves_out() -> None:
    cache = cache_of(response())
    cache.update(response(name="payments", topic_id=b"p" * 16), is_complete=True)
    assert list(cache.topics) == ["payments"]
    assert cache.topic_name(b"a" * 16) is None


def test_partitions_that_leave_a_hole_are_not_indexed_wrongly() -> None:
    told = response()
    told.topics[0].partitions[0].partition_index = 3
    cache = cache_of(told)
    assert cache.partition(TopicPartition("orders", 3)) is None
    assert cache.partition(ORDERS) is None


def test_kip_951_a_leader_hint_counts_if_its_epoch_is_newer_and_its_node_known() -> None:
    cache = cache_of(response(leader=1, epoch=5))
    assert not cache.update_leader(ORDERS, 2, 5)
    assert not cache.update_leader(ORDERS, 3, 6)
    cache.add_broker(Node(3, "h", 9093))
    version = cache.version
    assert cache.update_leader(ORDERS, 3, 6)
    assert cache.leader(ORDERS) == (3, 6)
    assert cache.version > version
