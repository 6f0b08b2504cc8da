"""Records of topics and partitions."""

from typing import Final

from kraft import lazy_attrs
from metadata.records.record import MetadataRecord, RecordType, metadata_record, number

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2
LEADER_RECOVERED: Final = 0
LEADER_RECOVERING: Final = 1
NO_LEADER_RECOVERY_CHANGE: Final = -1


@metadata_record(RecordType.TOPIC, version=0)
@lazy_attrs.frozen(kw_only=True)
class TopicRecord(MetadataRecord):
    name: str = number(0)
    topic_id: bytes = number(1)


@metadata_record(RecordType.PARTITION, version=2)
@lazy_attrs.frozen(kw_only=True)
class PartitionRecord(MetadataRecord):
    """Creates a partition. `replicas` are in order of preference, `directories` (UUIDs) in the order of `replicas`."""

    topic_id: bytes = number(0)
    partition_id: int = number(1)
    replicas: tuple[int, ...] = number(2)
    isr: tuple[int, ...] = number(3)
    leader: int = number(4, default=NO_LEADER)
    leader_epoch: int = number(5, default=0)
    partition_epoch: int = number(6, default=0)
    directories: tuple[bytes, ...] = number(7, default=())
    removing_replicas: tuple[int, ...] = number(8, default=())
    adding_replicas: tuple[int, ...] = number(9, default=())
    leader_recovery_state: int = number(10, default=LEADER_RECOVERED)
    eligible_leader_replicas: tuple[int, ...] = number(11, default=())
    last_known_elr: tuple[int, ...] = number(12, default=())


@metadata_record(RecordType.PARTITION_CHANGE, version=2)
@lazy_attrs.frozen(kw_only=True)
class PartitionChangeRecord(MetadataRecord):
    """Changes a partition. None and the NO_... constants stand for unchanged fields.

    Every change raises the partition epoch by one. A change with a leader, even the current one, also raises the leader
    epoch by one.
    """

    topic_id: bytes = number(0)
    partition_id: int = number(1)
    isr: tuple[int, ...] | None = number(2, default=None)
    leader: int = number(3, default=NO_LEADER_CHANGE)
    replicas: tuple[int, ...] | None = number(4, default=None)
    removing_replicas: tuple[int, ...] | None = number(5, default=None)
    adding_replicas: tuple[int, ...] | None = number(6, default=None)
    leader_recovery_state: int = number(7, default=NO_LEADER_RECOVERY_CHANGE)
    directories: tuple[bytes, ...] | None = number(8, default=None)
    eligible_leader_replicas: tuple[int, ...] | None = number(9, default=None)
    last_known_elr: tuple[int, ...] | None = number(10, default=None)


@metadata_record(RecordType.REMOVE_TOPIC, version=0)
@lazy_attrs.frozen(kw_only=True)
class RemoveTopicRecord(MetadataRecord):
    """Removes the topic, its partitions and its configs."""

    topic_id: bytes = number(0)
