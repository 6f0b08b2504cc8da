"""The events of `broker.share_partitions`."""

from typing import Final

from kraft.events import LINES_MAX, EventCatalogue, EventKind, Level

_SHARE_PARTITION: Final = {
    "group": "id of the share group",
    "topic": "topic",
    "partition": "number of the partition",
    "leader_epoch": "leader epoch in which this broker delivers the records",
}

SHARE_PARTITION_EVENTS: Final = EventCatalogue(
    "broker.share_partitions",
    {
        "dead_letters_lost": EventKind(
            Level.ERROR,
            "Records that a share group has failed to process could not be copied to its dead-letter topic. They stay "
            "in their topic, and the group passes over them.",
            {
                **{name: meaning for name, meaning in _SHARE_PARTITION.items() if name != "leader_epoch"},
                "first_offset": "lowest offset of the records",
                "last_offset": "highest offset of the records; others between them may be copied",
                "count": "number of offsets",
                "dead_letter_topic": "name of the dead-letter topic",
                "error": "the failure, as text",
            },
            "records of partition {partition} of {topic} have failed for share group {group}, and are not in its "
            "dead-letter topic {dead_letter_topic} (offsets {first_offset} to {last_offset}, count {count}): {error}",
            lines_max=LINES_MAX,
        ),
        "share_partition_dropped": EventKind(
            Level.DEBUG,
            "This broker delivers no more records of the partition to the share group: another broker leads, or the "
            "group has no session here. The next member of the group has it loaded again.",
            {**_SHARE_PARTITION, "reason": "name of the error that members get who still ask"},
        ),
        "share_partition_failed": EventKind(
            Level.WARNING,
            "The state of a share-partition cannot be loaded or stored. Members of the group get an error.",
            {**_SHARE_PARTITION, "error": "the failure, as text"},
            "share group {group} gets no records of partition {partition} of {topic}: its state cannot be kept by the "
            "share coordinator: {error}. If this goes on, look at the leaders of __share_group_state",
            lines_max=LINES_MAX,
        ),
        "share_partition_loaded": EventKind(
            Level.DEBUG,
            "This broker delivers records of the partition to the share group.",
            {**_SHARE_PARTITION, "start_offset": "offset from which on records are not finished"},
        ),
    },
)
