"""The events of `broker.coordinator`: a coordinator is one partition of an internal topic."""

from typing import Final

from kraft.events import LINES_MAX, EventCatalogue, EventKind, Level

_COORDINATOR: Final = {
    "topic": "internal topic",
    "partition": "partition that the coordinator is on",
    "epoch": "leader epoch in which this broker coordinates",
}
_PRUNED: Final = {
    "topic": "internal topic",
    "partition": "partition that the coordinator is on",
    "offset": "the first offset that is needed",
}
_TIMER: Final = {"partition": "partition that the coordinator is on, as topic-partition"}

COORDINATOR_EVENTS: Final = EventCatalogue(
    "broker.coordinator",
    {
        "coordinator_load_failed": EventKind(
            Level.ERROR,
            "The records of a coordinator cannot be read. It answers NOT_COORDINATOR in this leader epoch.",
            {
                **_COORDINATOR,
                "path": "directory of the log, or null",
                "error": "the failure, as text",
                "traceback": "where it happened in the source",
            },
            "the coordinator for partition {partition} of {topic} cannot be loaded from {path}: {error}. Its groups "
            "get NOT_COORDINATOR, and cannot consume or commit, until another broker leads the partition: elect one "
            "whose replica is intact, or, with one replica, restore the file or remove the damaged segment while the "
            "node is stopped, and start it again",
            traceback="traceback",
        ),
        "coordinator_loaded": EventKind(
            Level.DEBUG,
            "This broker coordinates what the partition has.",
            {
                **_COORDINATOR,
                "records": "how many records were read",
                "size_bytes": "their size",
                "elapsed_ms": "how long it took",
            },
        ),
        "coordinator_timer_failed": EventKind(
            Level.ERROR,
            "The code of a timer raised an unexpected error. The coordinator is loaded again.",
            {**_TIMER, "error": "the error with its traceback"},
            lines_max=LINES_MAX,
            traceback="error",
        ),
        "coordinator_timer_repeated": EventKind(
            Level.DEBUG,
            "The decision of a timer could not be written, as when too few replicas are in sync. It is tried again.",
            {**_TIMER, "error": "the failure, as text"},
        ),
        "coordinator_unloaded": EventKind(
            Level.DEBUG, "This broker no longer coordinates what the partition has.", _COORDINATOR
        ),
        "share_states_not_initialized": EventKind(
            Level.WARNING,
            "The share coordinator has not initialized partitions of a share group, whose members do not get them. A "
            "later heartbeat tries again; at most once per heartbeat interval of each group.",
            {
                "group": "group id",
                "partitions": "how many partitions failed",
                "error": "the failure of the first of them, as text",
            },
        ),
        "share_state_not_pruned": EventKind(
            Level.WARNING,
            "Records of the share coordinator that are no longer needed could not be deleted. It tries again later.",
            {**_PRUNED, "error": "name of the error code"},
            "partition {partition} of {topic} keeps records before offset {offset} that no share group needs: {error}",
            1,
        ),
        "share_state_pruned": EventKind(
            Level.DEBUG, "Records of the share coordinator that are no longer needed were deleted.", _PRUNED
        ),
        "share_state_topic_not_created": EventKind(
            Level.WARNING,
            "A share group needs the topic of its share coordinators, and the controller has not created it.",
            {"topic": "internal topic", "error": "name of the error code"},
            "{topic} cannot be created, so no share group works: {error}. The topic needs as many brokers as "
            "share.coordinator.state.topic.replication.factor",
            1,
        ),
        "transaction_marker_fenced": EventKind(
            Level.WARNING,
            "A partition refused the end marker of a transaction: a later coordinator or producer was there before.",
            {
                "transactional_id": "transactional id",
                "topic": "topic",
                "partition": "partition",
                "error": "name of the error code",
            },
            "the end of a transaction of {transactional_id} is refused by partition {partition} of {topic}: {error}",
        ),
        "transaction_timed_out": EventKind(
            Level.INFO,
            "A transaction was aborted because it was open for longer than its timeout.",
            {
                "transactional_id": "transactional id",
                "producer_id": "producer id",
                "timeout_ms": "the transaction's timeout",
            },
            "the transaction of {transactional_id} was aborted: it was open for more than {timeout_ms} ms",
        ),
    },
)
