"""Transactions and idempotent producers (TransactionLogConfig and its neighbours in Kafka)."""

from metadata.configuration.definition import ConfigKey
from metadata.configuration.validators import at_least
from metadata.configuration.vocabulary import (
    BOOLEAN,
    CLUSTER_WIDE,
    DAY_MS,
    HIGH,
    HOUR_MS,
    INT,
    LOW,
    MIB,
    MINUTE_MS,
    SHORT,
)

# A table: name, type, default, rule, importance; then what it means, and where it may change in a running broker.
# fmt: off
KEYS: tuple[ConfigKey, ...] = (
    ConfigKey("transaction.state.log.min.isr", INT, 2, at_least(1), HIGH,
        "min.insync.replicas of __transaction_state."),
    ConfigKey("transaction.state.log.load.buffer.size", INT, 5 * MIB, at_least(1), HIGH,
        "Bytes that are read at once when a coordinator loads its transactions."),
    ConfigKey("transaction.state.log.replication.factor", SHORT, 3, at_least(1), HIGH,
        "Replicas of __transaction_state; it is not created before there are that many brokers."),
    ConfigKey("transaction.state.log.num.partitions", INT, 50, at_least(1), HIGH,
        "Partitions of __transaction_state; never change it on a living cluster."),
    ConfigKey("transaction.state.log.segment.bytes", INT, 100 * MIB, at_least(1), HIGH,
        "Segment size of __transaction_state; small segments load faster."),
    ConfigKey("transaction.partition.verification.enable", BOOLEAN, True, None, LOW,
        "Whether a write is checked to belong to an open transaction (KIP-890).", CLUSTER_WIDE),
    ConfigKey("producer.id.expiration.ms", INT, DAY_MS, at_least(1), LOW,
        "How long in ms a partition remembers a producer that has stopped writing to it.", CLUSTER_WIDE),
    ConfigKey("producer.id.expiration.check.interval.ms", INT, 10 * MINUTE_MS, at_least(1), LOW,
        "How often in ms producers that may be forgotten are looked for.", internal=True),
    ConfigKey("transactional.id.expiration.ms", INT, 7 * DAY_MS, at_least(1), HIGH,
        "How long in ms the coordinator remembers a transactional id without any transaction."),
    ConfigKey("transaction.max.timeout.ms", INT, 15 * MINUTE_MS, at_least(1), HIGH,
        "Longest transaction timeout in ms that a producer may ask for."),
    ConfigKey("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, at_least(1), LOW,
        "How often in ms transactions that have timed out are looked for."),
    ConfigKey("transaction.remove.expired.transaction.cleanup.interval.ms", INT, HOUR_MS, at_least(1), LOW,
        "How often in ms transactional ids that may be forgotten are looked for."),
    ConfigKey("transaction.two.phase.commit.enable", BOOLEAN, False, None, LOW,
        "Whether producers may take part in a two-phase commit (KIP-939)."),
    ConfigKey("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, at_least(0), HIGH,
        "Longest time in ms that a leader keeps asking whether a transaction is open."),
    ConfigKey("add.partitions.to.txn.retry.backoff.ms", INT, 20, at_least(1), HIGH,
        "Pause in ms before a leader asks again whether a transaction is open."),
)
# fmt: on
