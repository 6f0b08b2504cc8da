"""The events of `broker.storage`.

The sentences about damage say what was found, what it means, and what an operator can do about it.
"""

from typing import Final

from kraft.events import LINES_MAX, EventCatalogue, EventKind, Level

_PATH: Final = {"path": "the file or directory"}
_LOG: Final = {"path": "directory of the log"}
_PARTITION: Final = {"partition": "the partition, as topic-partition"}
_ERROR: Final = {"error": "the failure, as text"}
_REASON: Final = {"reason": "the reason, as text"}
_CONSEQUENCE: Final = {"consequence": "the consequence, as text"}
_REFETCH: Final = (
    "If another replica in sync has them: stop this node, delete {path}, and start it; it fetches the partition again"
)

STORAGE_EVENTS: Final = EventCatalogue(
    "broker.storage",
    {
        "storage_batch_rewritten": EventKind(
            Level.WARNING,
            "A batch is damaged on the device, and intact in the page cache. The scrubber has written it again.",
            {**_PATH, **_ERROR},
            "{path} was damaged on its disk ({error}), and has been written again from memory. Look at the disk",
        ),
        "storage_checkpoint_corrupt": EventKind(
            Level.WARNING,
            "A checkpoint file is damaged and is not used.",
            {**_PATH, **_ERROR, **_CONSEQUENCE},
            "{path} is damaged and is not used ({error}): {consequence}",
        ),
        "storage_clean_log_corrupt": EventKind(
            Level.WARNING,
            "A log that was closed cleanly differs from what its files should be. It is validated again.",
            {**_LOG, **_ERROR},
            "{path} is not as it was when it was closed cleanly ({error}): all of it is validated again",
        ),
        "storage_cleaning_aborted": EventKind(
            Level.DEBUG,
            "The cleaner aborted the compaction of a log, because the log was truncated or deleted.",
            _LOG,
        ),
        "storage_directory_skipped": EventKind(
            Level.DEBUG,
            "A directory is skipped because its name marks it as deleted or stray.",
            {**_PATH, "reason": "the suffix of its name"},
        ),
        "storage_future_log_recovered": EventKind(
            Level.WARNING,
            "The only log of a replica was a copy for another log directory. It becomes the replica's log.",
            _LOG,
            "{path} was the only log of its partition, which was moving between log directories. It is used now",
        ),
        "storage_file_ignored": EventKind(
            Level.WARNING,
            "A file in a log directory does not belong there.",
            {**_PATH, **_REASON},
            "{path} is ignored: {reason}",
        ),
        "storage_file_rebuilt": EventKind(
            Level.WARNING,
            "The scrubber found a damaged file, and made it again from the batches or from memory.",
            {**_PATH, **_ERROR},
            "{path} was damaged ({error}), and has been made again: nothing is lost. Look at the disk",
        ),
        "storage_index_orphaned": EventKind(
            Level.DEBUG,
            "An index without a segment is removed.",
            _PATH,
        ),
        "storage_leader_epochs_corrupt": EventKind(
            Level.WARNING,
            "The leader-epoch-checkpoint of a log is damaged. It is rebuilt from the batches.",
            {**_LOG, **_ERROR},
            "{path} has a damaged leader-epoch-checkpoint ({error}): the log is validated whole, and the file is made"
            " again from its batches",
        ),
        "storage_log_cleaned": EventKind(
            Level.DEBUG,
            "The cleaner has compacted a log.",
            {
                **_LOG,
                "first_dirty": "offset where cleaning began",
                "end": "offset where it ended",
                "bytes_read": "bytes read",
                "bytes_written": "bytes written",
            },
        ),
        "storage_log_cut": EventKind(
            Level.WARNING,
            "Recovery removed records from the end of a partition.",
            {
                **_PARTITION,
                "lost": "what is gone, in words",
                "from_offset": "first offset that is gone",
                "to_offset": "offset after the last one that is known to be gone",
                **_PATH,
                "position": "byte where the file was cut",
                "bytes": "how many bytes were removed",
                **_REASON,
            },
            "recovery has cut {partition}: {lost} are gone from this replica, {bytes} bytes from byte {position} of "
            "{path} on ({reason}). Another replica in sync that has them sends them again; without one they are lost,"
            " acknowledged ones among them",
        ),
        "storage_log_dir_loaded": EventKind(
            Level.DEBUG,
            "All logs of a log directory are open.",
            {"path": "the log directory", "logs": "how many logs", "clean": "whether it was closed cleanly"},
        ),
        "storage_log_dir_offline": EventKind(
            Level.ERROR,
            "A log directory failed. The node continues without it.",
            {"path": "the log directory", **_ERROR, "partitions": "how many loaded partitions it has"},
            "log directory {path} has failed and is offline: {error}. Its loaded partitions, {partitions} in "
            "number, are not served by this node; repair it, and start the node again",
        ),
        "storage_log_ends_before_start": EventKind(
            Level.WARNING,
            "A log ends before its log start offset. Its segments are dropped.",
            {
                **_PARTITION,
                **_LOG,
                "end": "end offset of the segments",
                "log_start_offset": "offset in log-start-offset-checkpoint",
            },
            "{path} ends at offset {end}, before the start {log_start_offset} that log-start-offset-checkpoint names:"
            " all its segments are dropped, and {partition} begins again there without records. Another replica in "
            "sync that has records sends them again; without one they are lost",
        ),
        "storage_log_failed": EventKind(
            Level.DEBUG,
            "Reading or writing a log failed. Its log directory goes offline.",
            {**_LOG, **_ERROR},
        ),
        "storage_log_missing": EventKind(
            Level.WARNING,
            "A log that the recovery-point-offset-checkpoint names is not on the disk.",
            {**_LOG, "end_offset": "offset up to which it had durable records"},
            "{path} is gone, which held records up to offset {end_offset}: the partition begins again without records"
            " here. A leader in sync sends them again; without one they are lost, unless you stop the node and "
            "restore the directory",
        ),
        "storage_log_renamed": EventKind(
            Level.DEBUG,
            "The directory of a deleted or stray partition has another name.",
            {"topic": "topic", "partition": "number of the partition", "path": "new path"},
        ),
        "storage_log_uncleanable": EventKind(
            Level.WARNING,
            "The cleaner found damage in a log. It does not clean the log until the node restarts.",
            {**_LOG, **_ERROR},
            "{path} cannot be compacted until the node restarts: {error}",
        ),
        "storage_marker_malformed": EventKind(
            Level.WARNING,
            "An end marker of a transaction cannot be read. The transaction stays open in this replica.",
            {**_LOG, "offset": "offset of the marker", "producer_id": "id of its producer", **_ERROR},
            "the end marker at offset {offset} of {path} cannot be read: {error}. The transaction of producer "
            "{producer_id} stays open there: `kraft transactions find-hanging` shows it, `kraft transactions abort` "
            "ends it",
            LINES_MAX,
        ),
        "storage_partition_metadata_corrupt": EventKind(
            Level.WARNING,
            "The partition.metadata of a log is damaged.",
            {**_PATH, **_ERROR},
            "{path} has a damaged partition.metadata ({error}): it is taken for the log of the topic of its name",
        ),
        "storage_records_missing": EventKind(
            Level.WARNING,
            "Offsets are missing between two segments of a log.",
            {**_PARTITION, "lost": "the missing offsets, as text", **_LOG, **_REASON},
            "{partition} lacks {lost}: {reason}. Consumers pass over them. " + _REFETCH,
        ),
        "storage_replay_incomplete": EventKind(
            Level.WARNING,
            "The producer states could not be replayed from the whole log, because a batch is damaged.",
            {**_LOG, **_ERROR},
            "the producers of {path} are known only up to a damaged batch: {error}. Retries of producers may be "
            "written twice",
        ),
        "storage_scrubbed": EventKind(
            Level.INFO,
            "The scrubber has read all files of a log directory again.",
            {
                "path": "the log directory",
                "bytes": "bytes that were read, since the node started",
                "damaged": "how many damaged files and batches were found",
                "rebuilt": "how many of these were made again by the scrubber",
                "elapsed_ms": "time since the pass began",
            },
            "all files of {path} have been read again; damaged files: {damaged}, made again: {rebuilt}",
        ),
        "storage_segment_cut": EventKind(
            Level.DEBUG,
            "Recovery removed bytes from the end of a segment.",
            {**_PATH, "end_offset": "end offset of what is left", "bytes": "how many bytes were removed"},
        ),
        "storage_segment_damaged": EventKind(
            Level.WARNING,
            "A segment that is not the last one does not end with a whole batch.",
            {
                **_PARTITION,
                "from_offset": "first offset that cannot be read",
                "to_offset": "last offset that cannot be read",
                **_PATH,
                **_REASON,
            },
            "{path} does not end with a whole batch ({reason}): records of {partition} from offset {from_offset} to "
            "{to_offset} cannot be read there, and consumers stop. "
            + _REFETCH.replace("{path}", "the directory of {partition}"),
        ),
        "storage_segment_deleted": EventKind(
            Level.DEBUG,
            "Retention deleted a segment.",
            _PATH,
        ),
        "storage_segment_dropped": EventKind(
            Level.DEBUG,
            "Recovery dropped a segment after the place where a log was cut.",
            _PATH,
        ),
        "storage_segment_rolled": EventKind(
            Level.DEBUG,
            "A log has a new active segment.",
            _PATH,
        ),
        "storage_segments_cleaned": EventKind(
            Level.DEBUG,
            "A cleaned segment replaces the segments from which it was made.",
            {**_PATH, "segments": "how many it replaces", "bytes": "its size"},
        ),
        "storage_snapshot_corrupt": EventKind(
            Level.WARNING,
            "A producer snapshot is damaged. The state is read from the log instead.",
            {**_PATH, **_ERROR},
            "{path} is damaged and is not used ({error}): the producers' state is read from the log instead",
        ),
        "storage_swap_corrupt": EventKind(
            Level.WARNING,
            "A segment that the cleaner wrote is damaged.",
            {**_PATH, **_ERROR, **_CONSEQUENCE},
            "{path}, which the cleaner has written, is damaged ({error}): {consequence}",
        ),
        "storage_swap_finished": EventKind(
            Level.DEBUG,
            "Recovery finished a replacement of segments that a crash had interrupted.",
            _PATH,
        ),
        "storage_transaction_index_corrupt": EventKind(
            Level.DEBUG,
            "A transaction index is damaged. It and all later ones are rebuilt from the log.",
            {**_LOG, "from_offset": "the base offset of the segment"},
        ),
    },
)
