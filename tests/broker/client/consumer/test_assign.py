"""A consumer that assigns its partitions itself asks for metadata at once, if it does not know one of their leaders."""

import trio

from broker.wire.api.metadata import MetadataRequest
from tests.support.scripted_broker import ScriptedBroker, answer_from_log, brokers, consumer_of
from tests.support.topics_for_consumers import ONE, WITHIN_S, ZERO, fetch_exactly


def metadata_requests(broker: ScriptedBroker) -> int:
    return sum(isinstance(request, MetadataRequest) for request in broker.node.requests)


async def test_metadata_is_asked_for_at_once_if_a_leader_is_unknown() -> None:
    # The background asks for it after a minute.
    async with brokers(answer_from_log) as [broker], consumer_of(broker, retry_backoff_ms=60_000) as consumer:
        await fetch_exactly(consumer, 1)
        known = metadata_requests(broker)
        consumer.assign([ZERO])
        await fetch_exactly(consumer, 1)
        assert metadata_requests(broker) == known
        consumer.assign([ZERO, ONE])
        with trio.fail_after(WITHIN_S):
            while metadata_requests(broker) == known:
                await trio.sleep(0.005)
