"""Replication and leadership (ReplicationConfigs in Kafka)."""

from metadata.configuration.definition import ConfigKey
from metadata.configuration.validators import at_least
from metadata.configuration.vocabulary import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    KIB,
    LONG,
    MEDIUM,
    MIB,
    MINUTE_MS,
    STRING,
)

# A table: name, type, default, rule, importance; then what it means, and where it may change in a running broker.
# fmt: off
KEYS: tuple[ConfigKey, ...] = (
    ConfigKey("default.replication.factor", INT, 1, None, MEDIUM,
        "Replicas of a topic that is created without saying how many."),
    ConfigKey("replica.lag.time.max.ms", LONG, 30_000, None, HIGH,
        "A follower that was not caught up at any time in this many ms leaves the ISR."),
    ConfigKey("replica.socket.timeout.ms", INT, 30_000, None, HIGH,
        "How long in ms a follower's request may take."),
    ConfigKey("replica.socket.receive.buffer.bytes", INT, 64 * KIB, None, HIGH,
        "SO_RCVBUF of a follower's connection to a leader."),
    ConfigKey("replica.fetch.max.bytes", INT, MIB, at_least(0), MEDIUM,
        "How many bytes of each partition a follower asks for; a first batch that is larger is still sent."),
    ConfigKey("replica.fetch.wait.max.ms", INT, 500, None, HIGH,
        "How long in ms a leader may hold a follower's fetch that finds nothing."),
    ConfigKey("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, None, MEDIUM,
        "Whether a new follower begins with what the remote tier does not have yet.", CLUSTER_WIDE),
    ConfigKey("replica.fetch.backoff.ms", INT, 1000, at_least(0), MEDIUM,
        "Pause in ms of a follower after a failed fetch of a partition."),
    ConfigKey("replica.fetch.min.bytes", INT, 1, None, HIGH,
        "A follower's fetch waits for at least this many bytes."),
    ConfigKey("replica.fetch.response.max.bytes", INT, 10 * MIB, at_least(0), MEDIUM,
        "Most bytes a follower asks for in one fetch."),
    ConfigKey("num.replica.fetchers", INT, 1, None, HIGH,
        "Connections over which a follower fetches from each broker.", CLUSTER_WIDE),
    ConfigKey("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, None, HIGH,
        "How often in ms high watermarks are written to disk."),
    ConfigKey("fetch.purgatory.purge.interval.requests", INT, 1000, None, MEDIUM,
        "After this many finished ones, Apache Kafka sweeps its waiting fetches."),
    ConfigKey("producer.purgatory.purge.interval.requests", INT, 1000, None, MEDIUM,
        "After this many finished ones, Apache Kafka sweeps its waiting produces."),
    ConfigKey("delete.records.purgatory.purge.interval.requests", INT, 1, None, MEDIUM,
        "After this many finished ones, Apache Kafka sweeps its waiting deletions."),
    ConfigKey("auto.leader.rebalance.enable", BOOLEAN, True, None, HIGH,
        "Whether leaderships go back to the preferred replicas by themselves."),
    ConfigKey("leader.imbalance.check.interval.seconds", LONG, 300, at_least(1), HIGH,
        "How often in seconds preferred leaders are checked for."),
    ConfigKey("unclean.leader.election.interval.ms", LONG, 5 * MINUTE_MS, at_least(1), MEDIUM,
        "How often in ms partitions that may be led by a replica outside of the ISR are looked for.", internal=True),
    ConfigKey("unclean.leader.election.enable", BOOLEAN, False, None, HIGH,
        "Whether a replica outside of the ISR may lead when nobody else can, which may lose records.", CLUSTER_WIDE),
    ConfigKey("replica.selector.class", STRING, None, None, MEDIUM,
        "The class that chooses which replica a consumer reads (KIP-392); not set is the leader."),
)
# fmt: on
