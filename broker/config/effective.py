"""The configuration in force: the node's file, the dynamic configs over it, and each topic's own over both."""

from collections.abc import Callable, Mapping

import attrs

from broker.config.kafka_config import KafkaConfig
from broker.config.throttled_replicas import NO_REPLICAS, ThrottledReplicas
from broker.storage.log_config import LogConfig
from kraft.env import Tracer
from metadata.configuration import ConfigError, ConfigValue, ResourceType
from metadata.image import MetadataDelta, MetadataImage


@attrs.frozen
class TopicConfig:
    """What a partition's log and its leader need to know."""

    log: LogConfig
    min_insync_replicas: int
    throttled_as_leader: ThrottledReplicas = NO_REPLICAS
    throttled_as_follower: ThrottledReplicas = NO_REPLICAS


class EffectiveConfig:
    """`config` is what is in force on this node now. Topics that set the same things share one TopicConfig."""

    def __init__(self, config: KafkaConfig, trace: Tracer) -> None:
        self.config = config
        self._trace = trace
        self._topics: dict[tuple[tuple[str, str], ...], TopicConfig] = {}
        self._listeners: list[Callable[[KafkaConfig], None]] = []

    def when_changed(self, listener: Callable[[KafkaConfig], None]) -> None:
        """Have `listener` called with the config in force, whenever another one is. It must not block."""
        self._listeners.append(listener)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take over the dynamic configs of all brokers and of this one. A publisher, before those that ask for them."""
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
            values = self.config.topic_values(overrides)
            min_insync_replicas = values["min.insync.replicas"]
            assert isinstance(min_insync_replicas, int), "a number, as its definition says"
            config = self._topics[key] = TopicConfig(
                LogConfig.from_values(values),
                min_insync_replicas,
                self._throttled(values["leader.replication.throttled.replicas"]),
                self._throttled(values["follower.replication.throttled.replicas"]),
            )
        return config

    def _throttled(self, replicas: ConfigValue | None) -> ThrottledReplicas:
        assert isinstance(replicas, tuple), "a list, as its definition says"
        return ThrottledReplicas.parse(replicas, self.config.node_id)
