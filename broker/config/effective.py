"""The configuration in force: the node's file, the dynamic configs that override it, and the configs of topics."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs

from broker.config.kafka_config import KafkaConfig
from broker.storage.log_config import LogConfig
from kraft.env import Tracer
from metadata.configuration import ConfigError, ResourceType
from metadata.image import MetadataDelta, MetadataImage

_ALL_REPLICAS: Final = "*"


@attrs.frozen
class ThrottledReplicas:
    """The partitions of a topic that are throttled at this broker: all of them, or those in `indexes`."""

    are_all: bool = False
    indexes: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, entries: Iterable[str], broker_id: int) -> "ThrottledReplicas":
        """Read a topic's list, which is `*` or consists of `partition:broker` pairs."""
        texts = [entry.strip() for entry in entries]
        if "".join(texts) == _ALL_REPLICAS:
            return cls(are_all=True)
        pairs = [text.split(":") for text in texts if text]
        return cls(indexes=frozenset(int(index) for index, broker in pairs if int(broker) == broker_id))

    def __contains__(self, index: int) -> bool:
        return self.are_all or index in self.indexes


NO_REPLICAS = ThrottledReplicas()


@attrs.frozen
class TopicConfig:
    """The settings of a topic: those of its logs, and those that the leaders of its partitions use."""

    log: LogConfig
    min_insync_replicas: int
    throttled_as_leader: ThrottledReplicas = NO_REPLICAS
    throttled_as_follower: ThrottledReplicas = NO_REPLICAS


class EffectiveConfig:
    """`config` is the configuration in force on this node now. Topics with the same configs share one TopicConfig."""

    def __init__(self, config: KafkaConfig, trace: Tracer) -> None:
        self.config = config
        self._trace = trace
        self._topics: dict[tuple[tuple[str, str], ...], TopicConfig] = {}
        self._listeners: list[Callable[[KafkaConfig], None]] = []

    def add_listener(self, listener: Callable[[KafkaConfig], None]) -> None:
        """Call `listener` with the new config after every change. It must not block."""
        self._listeners.append(listener)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply changes of the dynamic configs of all brokers and of this one.

        A metadata publisher. It is registered before the publishers that read the config.
        """
        if not any(resource.type == ResourceType.BROKER for resource in delta.configs.changed):
            return
        configs = image.configs
        try:
            self.config = self.config.with_dynamic(configs.all_brokers(), configs.broker(self.config.node_id))
        except ConfigError as error:
            # The controller checks each change, but not its conflicts with what only this node's file says.
            self._trace("dynamic_config_refused", error=str(error))
        self._topics.clear()
        for listener in self._listeners:
            listener(self.config)

    def topic(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The config of a topic that sets `overrides`."""
        key = tuple(sorted(overrides.items()))
        config = self._topics.get(key)
        if config is None:
            topic = self.config.topic(overrides)
            node_id = self.config.node_id
            config = self._topics[key] = TopicConfig(
                LogConfig.of(topic),
                topic.min_insync_replicas,
                ThrottledReplicas.parse(topic.leader_replication_throttled_replicas, node_id),
                ThrottledReplicas.parse(topic.follower_replication_throttled_replicas, node_id),
            )
        return config
