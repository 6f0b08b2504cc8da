"""The controllers' quorum and the metadata log (QuorumConfig and MetadataLogConfig in Kafka)."""

from metadata.configuration.definition import ConfigKey
from metadata.configuration.validators import at_least, quorum_servers, quorum_voters
from metadata.configuration.vocabulary import (
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

# A table: name, type, default, rule, importance; then what it means, and where it may change in a running broker.
# fmt: off
KEYS: tuple[ConfigKey, ...] = (
    ConfigKey("controller.quorum.voters", LIST, (), quorum_voters, HIGH,
        "The voters of a quorum that never changes: id@host:port, separated by commas."),
    ConfigKey("controller.quorum.bootstrap.servers", LIST, (), quorum_servers, HIGH,
        "Where to find some of the controllers: host:port, separated by commas."),
    ConfigKey("controller.quorum.election.timeout.ms", INT, 1000, at_least(0), HIGH,
        "After this many ms without a leader a voter stands for election; voters vary it at random."),
    ConfigKey("controller.quorum.fetch.timeout.ms", INT, 2000, at_least(0), HIGH,
        "A voter that could not fetch from the leader for this many ms stands for election."),
    ConfigKey("controller.quorum.election.backoff.max.ms", INT, 1000, at_least(0), HIGH,
        "Longest time in ms before a new election after a tied one."),
    ConfigKey("controller.quorum.append.linger.ms", INT, 25, at_least(0), MEDIUM,
        "How long in ms the leader gathers records before it writes them."),
    ConfigKey("controller.quorum.request.timeout.ms", INT, 2000, at_least(0), MEDIUM,
        "How long in ms a request to another controller may take."),
    ConfigKey("controller.quorum.retry.backoff.ms", INT, 20, at_least(0), LOW,
        "Pause in ms before a failed request to a controller is repeated."),
    ConfigKey("metadata.log.dir", STRING, None, None, HIGH,
        "The directory of the metadata log; not set is the first of log.dirs."),
    ConfigKey("metadata.log.max.record.bytes.between.snapshots", LONG, 20 * MIB, at_least(1), HIGH,
        "A snapshot is made after this many bytes of new metadata records."),
    ConfigKey("metadata.log.max.snapshot.interval.ms", LONG, HOUR_MS, at_least(0), HIGH,
        "A snapshot is made after at most this many ms, if there is anything new; 0 turns that off."),
    ConfigKey("metadata.log.segment.bytes", INT, GIB, at_least(8 * MIB), HIGH,
        "Largest size of a segment of the metadata log."),
    ConfigKey("metadata.log.segment.ms", LONG, 7 * DAY_MS, None, HIGH,
        "Age in ms at which a segment of the metadata log is closed."),
    ConfigKey("metadata.max.retention.bytes", LONG, 100 * MIB, None, HIGH,
        "Size of the metadata log above which old snapshots and what they cover are deleted."),
    ConfigKey("metadata.max.retention.ms", LONG, 7 * DAY_MS, None, HIGH,
        "Age in ms above which old snapshots of the metadata log, and what they cover, are deleted."),
    ConfigKey("metadata.max.idle.interval.ms", INT, 500, at_least(0), LOW,
        "How often in ms an idle controller writes a no-op record; 0 turns that off."),
    ConfigKey("internal.metadata.log.segment.bytes", INT, None, None, LOW,
        "Segment size of the metadata log for tests.", internal=True),
    ConfigKey("internal.metadata.max.batch.size.in.bytes", INT, 8 * MIB, None, LOW,
        "Largest batch of the metadata log.", internal=True),
    ConfigKey("internal.metadata.max.fetch.size.in.bytes", INT, 8 * MIB, None, LOW,
        "Most bytes that one fetch of the metadata log is answered with.", internal=True),
    ConfigKey("internal.metadata.delete.delay.millis", LONG, MINUTE_MS, None, LOW,
        "How long in ms deleted files of the metadata log stay on the disk.", internal=True),
)
# fmt: on
