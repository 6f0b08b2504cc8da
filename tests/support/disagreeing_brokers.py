"""Brokers of one cluster that report different topics, as those do that lag behind. They answer about topics only."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersion
from broker.wire.api.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from broker.wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.wire.errors import ErrorCode
from tests.support.scripted_node import ScriptedNode, scripted_node


class KnownTopic(NamedTuple):
    """A topic as a broker knows it."""

    topic_id: bytes
    partitions: int = 1


View = dict[str, KnownTopic]


@asynccontextmanager
async def disagreeing_brokers(first: View, second: View) -> AsyncIterator[list[ScriptedNode]]:
    """Two brokers, each with its view of the topics. The views may change later."""
    nodes: list[ScriptedNode] = []

    def answer_by(view: View) -> Callable[[Any], Any]:
        return lambda request: _answer(request, view, nodes)

    async with scripted_node(answer_by(first)) as one, scripted_node(answer_by(second)) as other:
        nodes += [one, other]
        for node in nodes:
            node.api_versions = [ApiVersion(api.key, api.min_version, api.max_version) for api in APIS.values()]
        yield nodes


def _answer(request: Any, view: View, nodes: list[ScriptedNode]) -> Any:
    if isinstance(request, DescribeTopicPartitionsRequest):
        return DescribeTopicPartitionsResponse(topics=[_described(topic.name, view) for topic in request.topics])
    assert isinstance(request, MetadataRequest)
    brokers = [
        MetadataResponseBroker(node_id=number, host="127.0.0.1", port=node.port) for number, node in enumerate(nodes)
    ]
    if request.topics is None:
        topics = [_in_metadata(name, view) for name in view]
    else:
        names = {known.topic_id: name for name, known in view.items()}
        topics = [
            _in_metadata(topic.name or names.get(topic.topic_id), view, topic.topic_id) for topic in request.topics
        ]
    return MetadataResponse(brokers=brokers, controller_id=0, topics=topics)


def _described(name: str, view: View) -> DescribeTopicPartitionsResponseTopic:
    known = view.get(name)
    if known is None:
        return DescribeTopicPartitionsResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partitions = [DescribeTopicPartitionsResponsePartition(partition_index=each) for each in range(known.partitions)]
    return DescribeTopicPartitionsResponseTopic(name=name, topic_id=known.topic_id, partitions=partitions)


def _in_metadata(name: str | None, view: View, topic_id: bytes = bytes(16)) -> MetadataResponseTopic:
    if name is None:
        return MetadataResponseTopic(name=None, topic_id=topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    known = view.get(name)
    if known is None:
        return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partitions = [MetadataResponsePartition(partition_index=each) for each in range(known.partitions)]
    return MetadataResponseTopic(name=name, topic_id=known.topic_id, partitions=partitions)
