"""What a node prints of damage that it finds on its disks, so that no record is lost without a word.

A sentence by kind of traced event, formatted with the event's fields. Each says what was found, what it means, and
where an operator can do something about it, what to do.
"""

from collections.abc import Mapping
from typing import Final

_REFETCH: Final = (
    "If another replica in sync has them: stop this node, delete {path}, and start it; it fetches the partition again."
)

STORAGE_LINES: Final[Mapping[str, str]] = {
    "coordinator_load_failed": (
        "error: the coordinator for partition {partition} of {topic} cannot be loaded from {path}: {error}. Its groups "
        "get NOT_COORDINATOR, and cannot consume or commit, until another broker leads the partition: elect one whose "
        "replica is intact, or, with one replica, restore the file or remove the damaged segment while the node is "
        "stopped, and start it again"
    ),
    "log_cut": (
        "warning: recovery has cut {torn_bytes} bytes off the end of the metadata log {path}, which ends at offset "
        "{end_offset} now. A power cut leaves such bytes, which nobody was told of. If there was none, the disk has "
        "damaged entries that this controller may have acknowledged: remove the directory of the log, have the node "
        "formatted again, and remove and add it as a voter"
    ),
    "metadata_file_ignored": "warning: {path} is ignored: {reason}",
    "quorum_state_lost": (
        "warning: {path} has no intact record of the epoch and of the vote; this node is the only voter, so it goes on "
        "with the epoch of its log"
    ),
    "storage_checkpoint_corrupt": "warning: {path} is damaged and is not used ({error}): {consequence}",
    "storage_clean_log_corrupt": (
        "warning: {path} is not as it was when it was closed cleanly ({error}): all of it is validated again"
    ),
    "storage_file_ignored": "warning: {path} is ignored: {reason}",
    "storage_leader_epochs_corrupt": (
        "warning: {path} has a damaged leader-epoch-checkpoint ({error}): the log is validated whole, and the file is "
        "made again from its batches"
    ),
    "storage_log_cut": (
        "warning: recovery has cut {partition}: {lost} are gone from this replica, {bytes} bytes from byte {position} "
        "of {path} on ({reason}). Another replica in sync that has them sends them again; without one they are lost, "
        "acknowledged ones among them"
    ),
    "storage_log_dir_offline": (
        "error: log directory {path} has failed and is offline: {error}. Its {partitions} loaded partitions are not "
        "served by this node; repair it, and start the node again"
    ),
    "storage_log_ends_before_start": (
        "warning: {path} ends at offset {end}, before the start {log_start_offset} that log-start-offset-checkpoint "
        "names: all its segments are dropped, and {partition} begins again there without records. Another replica in "
        "sync that has records sends them again; without one they are lost"
    ),
    "storage_log_missing": (
        "warning: {path} is gone, which held records up to offset {end_offset}: the partition begins again without "
        "records here. A leader in sync sends them again; without one they are lost, unless you stop the node and "
        "restore the directory"
    ),
    "storage_partition_metadata_corrupt": (
        "warning: {path} has a damaged partition.metadata ({error}): it is taken for the log of the topic of its name"
    ),
    "storage_records_missing": ("warning: {partition} lacks {lost}: {reason}. Consumers pass over them. " + _REFETCH),
    "storage_segment_damaged": (
        "warning: {path} does not end with a whole batch ({reason}): records of {partition} from offset "
        "{from_offset} to {to_offset} cannot be read there, and consumers stop. "
        + _REFETCH.replace("{path}", "the directory of {partition}")
    ),
    "storage_snapshot_corrupt": (
        "warning: {path} is damaged and is not used ({error}): the producers' state is read from the log instead"
    ),
    "storage_swap_corrupt": "warning: {path}, which the cleaner has written, is damaged ({error}): {consequence}",
}
