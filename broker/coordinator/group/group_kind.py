"""The kinds of groups that a shard can hold, and what all groups have in common.

A further kind (streams groups) is a class that is a `Group`, and a `GroupKind` in the list of
`broker.coordinator.group.shard`.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias

from broker.coordinator.runtime.decision import CoordinatorRecord
from broker.coordinator.runtime.shard import Timers
from kraft import lazy_attrs
from metadata.image import MetadataDelta, MetadataImage

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


class GroupType(StrEnum):
    """The types of groups by the names that ListGroups uses."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


# Gets a topic's name and id, and a partition. Raises KafkaError if its offset must not be committed.
PartitionValidator: TypeAlias = Callable[[str, bytes, int], None]


class Group(Protocol):
    """A group of any kind, as requests about offsets and administrators' requests see it.

    None of these methods changes the group; `committed` may set its timers. A simple group, which only has committed
    offsets and never had members, is not an object: it consists of its offsets.
    """

    @property
    def group_id(self) -> str: ...

    @property
    def group_type(self) -> GroupType: ...

    @property
    def protocol_type(self) -> str | None:
        """The type of protocol that the members use, such as "consumer"; None before the first member joins."""
        ...

    @property
    def state(self) -> StrEnum:
        """The group's state by its name in responses."""
        ...

    @property
    def member_count(self) -> int: ...

    @property
    def is_empty(self) -> bool:
        """True if the group has no members. It may be deleted then, once it has no offsets."""
        ...

    def validate_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, api_version: int, is_transactional: bool
    ) -> PartitionValidator | None:
        """Raises KafkaError if this member may not commit at this generation or member epoch. Returns None if it
        may commit any offset, or the validator that has to agree to each partition.
        """
        ...

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises KafkaError if a member id or epoch is given and does not belong to a member of the group."""
        ...

    def validate_offset_delete(self) -> None:
        """Raises KafkaError if offsets cannot be deleted while the group has members."""
        ...

    def committed(self, member_id: str, timers: Timers) -> None:
        """Records that the member has committed offsets, which shows that it is alive. Called by `Decision.apply`."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """True if a member consumes the topic, or might, where subscriptions cannot be decoded."""
        ...

    def retention_begins_ms(self, commit_timestamp_ms: int) -> int | None:
        """The time from which an offset of that commit ages; None while the group's state keeps it alive (KIP-211)."""
        ...

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that remove the group. Its offsets are removed by others."""
        ...


# Replays a record into the groups by id: its key, and its value, which is None for a tombstone.
ReplayRecord: TypeAlias = Callable[[dict[str, Group], Any, Any], None]


def replays_of(
    make: type[Any], group_key: type[Any], replay: Mapping[type[Any], Callable[[Any, Any, Any], None]]
) -> dict[type[Any], ReplayRecord]:
    """How the records of groups of one class are replayed, by the classes of their keys.

    `replay` has a function for each class, which gets the group, the key and the value, None for a tombstone. The first
    record of a group makes it, and a tombstone of `group_key` removes it.

    A group of another class under the same id is replaced. If it was ever written to the log, a tombstone before this
    record has removed it already; otherwise it had nothing but offsets.
    """

    def replay_record(groups: dict[str, Group], key: Any, value: Any) -> None:
        group = groups.get(key.group_id)
        if value is not None:
            if not isinstance(group, make):
                group = groups[key.group_id] = make(key.group_id)
            replay[type(key)](group, key, value)
        elif isinstance(group, make):
            if isinstance(key, group_key):
                del groups[key.group_id]
            else:
                replay[type(key)](group, key, None)

    return dict.fromkeys(replay, replay_record)


@lazy_attrs.frozen(kw_only=True)
class GroupKind:
    """How a shard handles the groups of one kind. The callbacks get the shard, and look at the groups of their kind.

    `replay` maps the classes of record keys to the function that replays such records. `on_loaded` is called when the
    log is replayed, with the time in ms since 1970: it starts the members' sessions. `on_metadata_change` is called
    with each change of the metadata.
    """

    replay: Mapping[type[Any], ReplayRecord]
    on_loaded: Callable[[Any, int], None]
    on_metadata_change: Callable[[Any, MetadataDelta, MetadataImage], None] | None = None
