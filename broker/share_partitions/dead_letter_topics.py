"""The dead-letter topics of share groups: which topics may be one, and where a dead letter goes (KIP-1191)."""

from collections.abc import Awaitable, Callable
from typing import Final

from broker.config.effective import EffectiveConfig
from broker.replication.partition import Partition
from broker.wire.api.create_topics import CreatableTopic, CreatableTopicConfig
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs
from metadata.configuration import TopicConfigs
from metadata.image import MetadataImage

_INTERNAL: Final = "__"
# The controller uses the defaults of the cluster.
_DEFAULT: Final = -1
_NO_LEADER: Final = -1


@lazy_attrs.frozen
class Destination:
    """The partition of a dead-letter topic that gets dead letters, and the id of its leader."""

    topic_id: bytes
    partition: int
    leader: int
    max_message_bytes: int


class DeadLetterTopics:
    """Finds and creates dead-letter topics. `create_topic` asks the controller, and returns NONE or the error."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        effective: EffectiveConfig,
        create_topic: Callable[[CreatableTopic], Awaitable[ErrorCode]],
    ) -> None:
        self._image = image
        self._effective = effective
        self._create_topic = create_topic

    def find(self, name: str, source: Partition) -> Destination:
        """The destination of dead letters of records of a partition.

        A producer that may not write to a topic could otherwise have this broker do it. So the name needs a prefix, and
        the topic a config of its own. A dead letter of a record of the same topic would be delivered to the group and
        fail as the record did, again and again. Raises KafkaError: INVALID_CONFIG if the topic may not get dead
        letters, UNKNOWN_TOPIC_OR_PARTITION if it has to be created first, LEADER_NOT_AVAILABLE.
        """
        config, image = self._effective.config, self._image()
        prefix = config.errors_deadletterqueue_topic_name_prefix
        topic = image.topics.by_name.get(name)
        if not name:
            raise _refused("the group has no dead-letter topic, or share.version is below 2")
        if name.startswith(_INTERNAL):
            raise _refused(f"the name of a dead-letter topic cannot begin with {_INTERNAL}")
        if name == source.topic:
            raise _refused("the records are in the dead-letter topic of the group already")
        topic_config = None if topic is None else self._effective.topic(name, image.configs.topic(name))
        if topic_config is not None and not topic_config.takes_dead_letters:
            raise _refused(f"{TopicConfigs.errors_deadletterqueue_group_enable.name} of the topic is not true")
        if not name.startswith(prefix):
            raise _refused(f"the name of a dead-letter topic has to begin with {prefix}")
        if topic is None or topic_config is None:
            if not config.errors_deadletterqueue_auto_create_topics_enable:
                raise _refused("the topic does not exist, and dead-letter topics are not created automatically")
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic does not exist yet")
        index = source.index % len(topic.partitions)
        leader = topic.partitions[index].leader
        if leader == _NO_LEADER:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {index} has no leader")
        return Destination(topic.topic_id, index, leader, topic_config.log.max_message_bytes)

    async def create(self, name: str) -> None:
        """Create a topic with the configs of a dead-letter topic. Raises KafkaError."""
        configs = {
            TopicConfigs.errors_deadletterqueue_group_enable.name: "true",
            # Dead letters have the time at which they are written, whatever the default of the cluster is.
            TopicConfigs.message_timestamp_type.name: "CreateTime",
        }
        topic = CreatableTopic(
            name=name,
            num_partitions=_DEFAULT,
            replication_factor=_DEFAULT,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        code = await self._create_topic(topic)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, "the topic cannot be created")


def _refused(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, reason)
