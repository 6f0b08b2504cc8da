"""The names of the topics that a coordinator assigns by their ids."""

from collections.abc import Iterable
from typing import Final

from broker.client.cluster import Cluster
from broker.client.errors import ConnectionLost, KafkaError, UnsupportedByBroker
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

# Brokers answer by id from version 10 on, and correctly from this one (KAFKA-13580).
_BY_ID_SINCE: Final = 12


class TopicNames:
    """Names by topic id: from the metadata, from what was learned before, and from the brokers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[bytes, str] = {}

    async def resolve(self, partitions: Iterable[tuple[bytes, int]]) -> dict[bytes, str]:
        """Returns the names that can be found now. Names of other topic ids are forgotten."""
        ids = dict.fromkeys(topic_id for topic_id, _ in partitions)
        self._known = {topic_id: name for topic_id in ids if (name := self._name(topic_id)) is not None}
        missing = [topic_id for topic_id in ids if topic_id not in self._known]
        if missing:
            try:
                await self._ask(missing)
            except (ConnectionLost, KafkaError, UnsupportedByBroker):
                self._cluster.request_refresh()
        return self._known

    def _name(self, topic_id: bytes) -> str | None:
        return self._cluster.metadata.topic_name(topic_id) or self._known.get(topic_id)

    async def _ask(self, ids: Iterable[bytes]) -> None:
        asked = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        response: MetadataResponse = await self._cluster.ask_any(
            lambda broker: broker.call(request, lowest=_BY_ID_SINCE)
        )
        found = {topic.topic_id: topic.name for topic in response.topics if topic.name and topic.error_code == 0}
        self._known.update(found)
        if found:
            self._cluster.follow_topics(found.values())
            await self._cluster.refresh()
