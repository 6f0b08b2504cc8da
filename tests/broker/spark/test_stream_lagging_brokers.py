"""A streaming query asks a broker that lags behind the others. It neither loses a topic nor mistakes it for another."""

import pytest
import trio

from broker.client import TopicPartition
from broker.spark.options import ReadOptions
from broker.spark.streaming import cluster as cluster_module
from broker.spark.streaming.cluster import BrokersDisagree, StreamCluster
from broker.spark.streaming.planning import Topics
from broker.spark.streaming.stream_offsets import StreamOffsets
from tests.support.disagreeing_brokers import KnownTopic, View, disagreeing_brokers

OLD, NEW = b"o" * 16, b"n" * 16
POSITION = StreamOffsets(
    {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 7}, topic_ids={"orders": NEW}, group_id="g"
)
CURRENT = {"orders": KnownTopic(NEW, partitions=2)}
WHOLE = Topics({"orders": NEW}, (TopicPartition("orders", 0), TopicPartition("orders", 1)))


def topics_of(address: str, choice: tuple[str, str] = ("subscribe", "orders")) -> Topics:
    """Looks topics up for a query at `POSITION`. Its only bootstrap server is at this address."""
    given = {"kafka.bootstrap.servers": address, "fetchOffset.retryIntervalMs": "10", choice[0]: choice[1]}
    cluster = StreamCluster(ReadOptions.of(given, is_streaming=True))
    try:
        return cluster.topics(POSITION)
    finally:
        cluster.close()


async def topics_by(lagging: View, current: View, choice: tuple[str, str] = ("subscribe", "orders")) -> Topics:
    async with disagreeing_brokers(lagging, current) as [first, _]:
        return await trio.to_thread.run_sync(topics_of, first.address, choice)


@pytest.mark.parametrize("choice", [("subscribe", "orders"), ("subscribePattern", "ord.*")])
async def test_a_topic_that_a_lagging_broker_does_not_know_is_not_gone(choice: tuple[str, str]) -> None:
    assert await topics_by({}, CURRENT, choice) == WHOLE


async def test_partitions_that_a_lagging_broker_does_not_know_are_not_gone() -> None:
    assert await topics_by({"orders": KnownTopic(NEW, partitions=1)}, CURRENT) == WHOLE


async def test_a_topic_is_gone_that_no_broker_knows() -> None:
    assert await topics_by({}, {}) == Topics({}, ())


@pytest.mark.parametrize("other", [{"orders": KnownTopic(OLD)}, {}])
async def test_a_topic_is_created_again_if_no_broker_knows_the_id_of_before(other: View) -> None:
    again = {"orders": KnownTopic(OLD)}
    assert await topics_by(again, other) == Topics({"orders": OLD}, (TopicPartition("orders", 0),))


async def test_a_query_fails_while_brokers_disagree_on_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "_AGREEMENT_TIMEOUT_S", 0.3)
    async with disagreeing_brokers({"orders": KnownTopic(OLD)}, CURRENT) as [first, _]:
        with pytest.raises(BrokersDisagree, match="do not agree on whether orders was deleted"):
            await trio.to_thread.run_sync(topics_of, first.address)
