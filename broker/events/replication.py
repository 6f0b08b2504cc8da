"""The events of `broker.replication`."""

from typing import Final

from kraft.events import LINES_MAX, EventCatalogue, EventKind, Level

_NODE: Final = {"node": "id of the broker"}
_REPLICA: Final = {
    **_NODE,
    "topic_id": "id of the topic, in hexadecimal digits",
    "partition": "number of the partition",
    "leader_epoch": "leader epoch that the replica is in",
}
_SOURCE: Final = {"source": "id of the broker that is fetched from"}
_FAILED: Final = {"topic": "topic", "partition": "number of the partition", "error": "the failure, as text"}

REPLICATION_EVENTS: Final = EventCatalogue(
    "broker.replication",
    {
        "committed_truncated": EventKind(
            Level.DEBUG,
            "A follower removed records below its high watermark, because its leader does not have them. This happens "
            "after an unclean election.",
            {**_REPLICA, "offset": "new end of the log", "high_watermark": "high watermark before"},
        ),
        "directories_not_assigned": EventKind(
            Level.DEBUG,
            "The controller did not accept a report of the log directories of replicas. It is sent again.",
            {**_NODE, "error": "name or number of the error code"},
        ),
        "directory_assignment_refused": EventKind(
            Level.DEBUG,
            "The controller refused the log directory of one replica.",
            {**_NODE, "error": "number of the error code"},
        ),
        "fetcher_connected": EventKind(
            Level.DEBUG, "A follower's fetcher is connected to a leader.", {**_NODE, **_SOURCE}
        ),
        "fetcher_disconnected": EventKind(
            Level.DEBUG,
            "A follower's fetcher lost its connection to a leader. It connects again after a pause.",
            {**_NODE, **_SOURCE, "reason": "why, as text"},
        ),
        "future_log_truncated": EventKind(
            Level.DEBUG,
            "A replica that moves between log directories was truncated, and so is its copy.",
            {**_REPLICA, "offset": "new end of the copy", "end_offset": "end before"},
        ),
        "isr_changed": EventKind(
            Level.DEBUG,
            "The leader of a partition has learnt that the controller changed the ISR.",
            {**_REPLICA, "isr": "ids of the replicas in sync", "partition_epoch": "partition epoch of the change"},
        ),
        "isr_proposed": EventKind(
            Level.DEBUG,
            "The leader of a partition asks the controller for another ISR.",
            {
                **_REPLICA,
                "isr": "ids of the replicas in the proposed ISR",
                "joining": "id of the replica that joins, or null",
            },
        ),
        "isr_refused": EventKind(
            Level.DEBUG,
            "The controller refused the proposed ISR.",
            {**_REPLICA, "error": "name of the error code"},
        ),
        "partition_damaged": EventKind(
            Level.ERROR,
            "The log of a replica was found to be damaged. The damaged records are not sent to consumers or followers.",
            {
                **_REPLICA,
                "topic": "topic",
                "leader": "id of the leader, -1 for none",
                "first_offset": "first offset that cannot be trusted",
                "end_offset": "first offset after the damage",
                "path": "the file",
                "reason": "what is wrong with it, as text",
            },
            "{topic}-{partition} is damaged on broker {node}: the records from offset {first_offset} to the one before "
            "{end_offset} in {path} cannot be trusted ({reason}). They are not sent to anybody. Look at the disk",
        ),
        "partition_damage_stays": EventKind(
            Level.ERROR,
            "The log of a leader is damaged, and no other replica is in sync that could lead.",
            {**_REPLICA, "topic": "topic", "remedy": "what the operator can do, as text"},
            "{topic}-{partition} stays damaged on broker {node}: {remedy}",
        ),
        "partition_followed": EventKind(
            Level.DEBUG,
            "The replica follows a leader in a new leader epoch.",
            {**_REPLICA, "leader": "id of the leader, -1 for none"},
        ),
        "partition_led": EventKind(
            Level.DEBUG,
            "The replica leads its partition in a new leader epoch.",
            {
                **_REPLICA,
                "start_offset": "offset where the leader epoch begins",
                "high_watermark": "high watermark that it begins with",
            },
        ),
        "partition_left_behind": EventKind(
            Level.WARNING,
            "The log of a deleted partition cannot be removed. It stays on the disk.",
            _FAILED,
            lines_max=LINES_MAX,
        ),
        "partition_offline": EventKind(
            Level.INFO,
            "The log of a partition is in a log directory that is offline, so the replica is offline here.",
            _FAILED,
            lines_max=LINES_MAX,
        ),
        "partition_repair_failed": EventKind(
            Level.WARNING,
            "The log of a follower is damaged, and could not be repaired from the leader. The follower tries again.",
            {**_REPLICA, "topic": "topic", "reason": "why, as text"},
            "{topic}-{partition} on broker {node} cannot be repaired now, which is tried again: {reason}",
            LINES_MAX,
        ),
        "partition_repaired": EventKind(
            Level.WARNING,
            "The log of a replica has no known damage any more: it was repaired from the leader, or the damaged part "
            "was deleted.",
            {**_REPLICA, "topic": "topic", "leader": "id of the leader, -1 for none"},
            "{topic}-{partition} on broker {node} has no damage any more",
        ),
        "partition_truncated": EventKind(
            Level.DEBUG,
            "A follower removed records that its leader does not have.",
            {**_REPLICA, "offset": "new end of the log"},
        ),
        "replica_fetch_damaged": EventKind(
            Level.ERROR,
            "A follower does not get a record from its leader, because the leader's log is damaged there.",
            {
                **_REPLICA,
                **_SOURCE,
                "topic": "topic",
                "offset": "offset that the follower fetches from",
                "reason": "why, as text",
            },
            "broker {source}, the leader of {topic}-{partition}, has no intact record at offset {offset}, so that this "
            "replica gets no more records from it: {reason}. `kraft cluster health` shows what is done about it",
            LINES_MAX,
        ),
        "replica_fetch_refused": EventKind(
            Level.DEBUG,
            "A fetch of one partition failed. It is repeated after a pause.",
            {**_REPLICA, **_SOURCE, "reason": "why, as text"},
        ),
        "replica_move_began": EventKind(
            Level.INFO,
            "A replica is being copied to another log directory, or its copying goes on after a start.",
            {**_REPLICA, "topic": "topic", "path": "directory of the copy"},
            "replica of {topic}-{partition}: copying it to {path}",
            LINES_MAX,
        ),
        "replica_move_assigned": EventKind(
            Level.DEBUG,
            "The controller knows the new directory of a replica that is being copied there. Its log moves next.",
            {**_REPLICA, "topic": "topic", "path": "directory of the copy"},
            "replica of {topic}-{partition}: the controller has it in the log directory of {path}",
            LINES_MAX,
        ),
        "replica_move_ended": EventKind(
            Level.INFO,
            "The copying of a replica to another log directory has ended without its move.",
            {**_REPLICA, "topic": "topic", "reason": "why, as text"},
            "replica of {topic}-{partition}: it stays in its log directory, because {reason}",
            LINES_MAX,
        ),
        "replica_move_paused": EventKind(
            Level.WARNING,
            "A replica that is being copied to another log directory could not be copied further. It is tried again.",
            {**_REPLICA, "topic": "topic", "reason": "why, as text"},
            "replica of {topic}-{partition}: copying it to another log directory is tried again soon: {reason}",
            LINES_MAX,
        ),
        "replica_move_restarted": EventKind(
            Level.INFO,
            "The copy of a replica for another log directory begins again, because the replica's log was compacted or "
            "replaced while that directory was absent.",
            {**_REPLICA, "topic": "topic", "path": "former directory of the copy"},
            "replica of {topic}-{partition}: the copy in {path} is deleted and made again, because the replica's log "
            "was compacted or replaced since",
            LINES_MAX,
        ),
        "replica_moved": EventKind(
            Level.INFO,
            "A replica has moved to another log directory.",
            {
                **_REPLICA,
                "topic": "topic",
                "path": "new directory of its log",
                "end_offset": "end of its log",
                "size_bytes": "size of its log",
            },
            "replica of {topic}-{partition}: it is in {path} now",
            LINES_MAX,
        ),
        "stray_logs_renamed": EventKind(
            Level.WARNING,
            "A log directory has partitions that the metadata does not assign to this broker.",
            {"path": "the log directory", "count": "how many partitions", "partitions": "the first of them"},
            "the metadata has no record of partitions that are in {path}: {count} ({partitions}). They are not served "
            "any more: their directories are renamed to end with -stray, and kept. Delete them to free their space",
        ),
    },
)
