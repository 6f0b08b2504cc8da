"""The controllers' quorum and the metadata log (QuorumConfig and MetadataLogConfig in Kafka)."""

from metadata.configuration.definition import ConfigValues, key
from metadata.configuration.validators import at_least, quorum_servers, quorum_voters
from metadata.configuration.vocabulary import (
    BOOLEAN,
    DAY_MS,
    GIB,
    HIGH,
    HOUR_MS,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    MIB,
    MINUTE_MS,
    STRING,
)


# Each key: type, default, validator, importance; then its documentation, and where it may change in a running broker.
# fmt: off
class QuorumConfigs(ConfigValues):
    """The quorum of controllers and the metadata log."""

    controller_quorum_voters = key(LIST, (), quorum_voters, HIGH,
        "The voters of a quorum that never changes: id@host:port, separated by commas.", may_repeat=True)
    controller_quorum_bootstrap_servers = key(LIST, (), quorum_servers, HIGH,
        "Where to find some of the controllers: host:port, separated by commas.", may_repeat=True)
    controller_quorum_election_timeout_ms = key(INT, 1000, at_least(0), HIGH,
        "After this many ms without a leader a voter stands for election; voters vary it at random.")
    controller_quorum_fetch_timeout_ms = key(INT, 2000, at_least(0), HIGH,
        "A voter that could not fetch from the leader for this many ms stands for election.")
    controller_quorum_election_backoff_max_ms = key(INT, 1000, at_least(0), HIGH,
        "Longest time in ms before a new election after a tied one.")
    controller_quorum_append_linger_ms = key(INT, 25, at_least(0), MEDIUM,
        "How long in ms the leader gathers records before it writes them.", takes_effect=False)
    controller_quorum_auto_join_enable = key(BOOLEAN, False, None, LOW,
        "Whether a controller that is not a voter adds itself, and removes its former directory first (KIP-1186).")
    controller_quorum_fetch_max_bytes = key(INT, MIB, at_least(1), LOW,
        "Most bytes that one fetch of the metadata log is answered with.", takes_effect=False)
    controller_quorum_fetch_snapshot_max_bytes = key(INT, MIB, at_least(1), LOW,
        "Most bytes that one fetch of a metadata snapshot is answered with.", takes_effect=False)
    controller_quorum_request_timeout_ms = key(INT, 2000, at_least(0), MEDIUM,
        "How long in ms a request to another controller may take.")
    controller_quorum_retry_backoff_ms = key(INT, 20, at_least(0), LOW,
        "Pause in ms before a failed request to a controller is repeated.")
    metadata_log_dir = key(STRING, None, None, HIGH,
        "The directory of the metadata log; not set is the first of log.dirs.")
    metadata_log_max_record_bytes_between_snapshots = key(LONG, 20 * MIB, at_least(1), HIGH,
        "A snapshot is made after this many bytes of new metadata records.")
    metadata_log_max_snapshot_interval_ms = key(LONG, HOUR_MS, at_least(0), HIGH,
        "A snapshot is made after at most this many ms, if there is anything new; 0 turns that off.")
    metadata_log_segment_bytes = key(INT, GIB, at_least(8 * MIB), HIGH,
        "Largest size of a segment of the metadata log.", takes_effect=False)
    metadata_log_segment_ms = key(LONG, 7 * DAY_MS, None, HIGH,
        "Age in ms at which a segment of the metadata log is closed.", takes_effect=False)
    metadata_max_retention_bytes = key(LONG, 100 * MIB, None, HIGH,
        "Size of the metadata log above which old snapshots and what they cover are deleted.", takes_effect=False)
    metadata_max_retention_ms = key(LONG, 7 * DAY_MS, None, HIGH,
        "Age in ms above which old snapshots of the metadata log, and what they cover, are deleted.",
        takes_effect=False)
    metadata_max_idle_interval_ms = key(INT, 500, at_least(0), LOW,
        "How often in ms an idle controller writes a no-op record; 0 turns that off.", takes_effect=False)
    internal_metadata_log_segment_bytes = key(INT, None, None, LOW,
        "Segment size of the metadata log for tests.", internal=True, takes_effect=False)
    internal_metadata_max_batch_size_in_bytes = key(INT, 8 * MIB, None, LOW,
        "Largest batch of the metadata log.", internal=True, takes_effect=False)
    internal_metadata_delete_delay_millis = key(LONG, MINUTE_MS, None, LOW,
        "How long in ms deleted files of the metadata log stay on the disk.", internal=True, takes_effect=False)
# fmt: on
