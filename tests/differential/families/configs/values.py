"""The keys that sequences set, with right and wrong values of each."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tests.differential.families.configs.config_steps import BROKER, CLIENT_METRICS, GROUP, TOPIC


class Values(NamedTuple):
    right: Sequence[str]
    wrong: Sequence[str] = ()


_NUMBERS: Final = ("", " ", "abc", "1.5", "-2", "99999999999", "9223372036854775808", "0x10", "1e3", " 5 ")
_BOOLEANS: Final = Values(("true", "false", "TRUE", " false "), ("yes", "", "1"))
_REPLICAS: Final = Values(("*", "0:1", "0:1,1:1"), ("0-1", "a:b", "*,0:1", "", "0:1,", "0:-1"))
_POLICIES: Final = Values(
    ("compact", "delete", "compact,delete", "delete,compact"),
    ("odd", "delete,odd", "", "delete,delete", "none", " compact , delete ", "Delete", ","),
)
_COMPRESSIONS: Final = Values(("gzip", "producer", "uncompressed", "zstd"), ("odd", "none", "", "GZIP"))

TOPIC_VALUES: Final[Mapping[str, Values]] = {
    "retention.ms": Values(("-1", "1000", "604800000"), _NUMBERS),
    "retention.bytes": Values(("-1", "1048576"), ("abc", "")),
    "segment.bytes": Values(("1048576", "1073741824"), (*_NUMBERS, "13", "1048575")),
    "segment.ms": Values(("1", "604800000"), ("0", "-1")),
    "segment.jitter.ms": Values(("0", "10"), ("-1",)),
    "segment.index.bytes": Values(("4096", "10485760"), ("3", "-1")),
    "cleanup.policy": _POLICIES,
    "compression.type": _COMPRESSIONS,
    "compression.gzip.level": Values(("1", "9", "-1"), ("0", "10", "-2")),
    "compression.lz4.level": Values(("1", "17"), ("0", "18")),
    "compression.zstd.level": Values(("1", "22", "-131072"), ("23", "-131073")),
    "min.insync.replicas": Values(("1", "2"), ("0", "-1", "abc")),
    "max.message.bytes": Values(("0", "1000"), ("-1", "2147483648")),
    "unclean.leader.election.enable": _BOOLEANS,
    "preallocate": _BOOLEANS,
    "message.timestamp.type": Values(("CreateTime", "LogAppendTime"), ("createtime", "", "odd")),
    "message.timestamp.before.max.ms": Values(("0", "1000"), ("-1",)),
    "min.cleanable.dirty.ratio": Values(("0.5", "1", "0", "1e-3", ".25"), ("1.1", "-0.1", "NaN", "abc", "")),
    "min.compaction.lag.ms": Values(("0", "1000"), ("-1", "9223372036854775807")),
    "max.compaction.lag.ms": Values(("5000", "9223372036854775807"), ("0", "1", "500")),
    "delete.retention.ms": Values(("0", "86400000"), ("-1",)),
    "file.delete.delay.ms": Values(("0", "60000"), ("-1",)),
    "flush.messages": Values(("1", "9223372036854775807"), ("0",)),
    "flush.ms": Values(("0", "1000"), ("-1",)),
    "index.interval.bytes": Values(("0", "4096"), ("-1",)),
    "leader.replication.throttled.replicas": _REPLICAS,
    "follower.replication.throttled.replicas": _REPLICAS,
    "remote.storage.enable": Values(("false",), ("true", "odd")),
    "local.retention.ms": Values(("-2", "5"), ("-3", "-1")),
    "local.retention.bytes": Values(("-2", "5"), ("-3", "-1")),
    "remote.log.copy.disable": _BOOLEANS,
    "remote.log.delete.on.disable": _BOOLEANS,
}
GROUP_VALUES: Final[Mapping[str, Values]] = {
    "consumer.session.timeout.ms": Values(("45000", "50000", "60000"), ("44999", "60001", *_NUMBERS)),
    "consumer.heartbeat.interval.ms": Values(("5000", "15000"), ("15001", "4999", "0", "-1", "abc", "")),
    "consumer.assignment.interval.ms": Values(("0", "1000", "15000"), ("15001", "-1", "abc")),
}
CLIENT_METRICS_VALUES: Final[Mapping[str, Values]] = {
    "interval.ms": Values(("100", "1000", "3600000"), ("99", "3600001", "-1", *_NUMBERS)),
    "metrics": Values(("*", "a.b", "a.b,c.d"), ("", ",", "a,,b", "a,a", " a , b ")),
    "match": Values(
        ("client_id=a", "client_id=a.*,client_software_name=b", "client_source_port=1"),
        ("odd=a", "client_id", "client_id=", "client_id=[", "", "client_id=a=b", "=a", " client_id = a "),
    ),
}
# None of them may change what the sequences themselves need: connections, threads of requests, memory.
BROKER_VALUES: Final[Mapping[str, Values]] = {
    "log.retention.ms": Values(("-1", "1000", "604800000"), _NUMBERS),
    "log.retention.bytes": Values(("-1", "1048576"), ("abc", "")),
    "log.segment.bytes": Values(("1048576", "1073741824"), ("13", "", "abc")),
    "log.roll.ms": Values(("1", "604800000"), ("0", "-1")),
    "log.cleanup.policy": _POLICIES,
    "compression.type": _COMPRESSIONS,
    "compression.gzip.level": Values(("1", "9"), ("0", "10")),
    "min.insync.replicas": Values(("1", "2"), ("0", "abc")),
    "message.max.bytes": Values(("1000000", "2000000"), ("-1", "abc")),
    "unclean.leader.election.enable": _BOOLEANS,
    "log.message.timestamp.type": Values(("CreateTime", "LogAppendTime"), ("odd",)),
    "log.cleaner.min.cleanable.ratio": Values(("0.5", "1"), ("1.1", "abc")),
    "log.cleaner.backoff.ms": Values(("0", "15000"), ("-1",)),
    "log.cleaner.threads": Values(("1", "2"), ("0", "3", "4", "abc")),
    "background.threads": Values(("8", "10", "20"), ("0", "4", "21", "abc")),
    "leader.replication.throttled.rate": Values(("1000", "0"), ("-1", "abc")),
    "follower.replication.throttled.rate": Values(("1000", "9223372036854775807"), ("-1", "")),
    "max.connections": Values(("10000", "2147483647"), ("-1", "0", "abc")),
    "max.connections.per.ip.overrides": Values(("10.1.2.3:100", "10.1.2.3:100,10.1.2.4:7"), ("odd", "10.1.2.3:x", ":")),
    "listener.name.plaintext.max.connections": Values(("10000",), ("-1", "0", "abc")),
    "listener.name.plaintext.ssl.keystore.type": Values(("JKS",)),
    "ssl.keystore.password": Values(("secret",)),
    "ssl.keystore.location": Values(("/nowhere",)),
    "max.incremental.fetch.session.cache.slots": Values(("1000",)),
    "log.retention.hours": Values(("24",)),
    "num.partitions": Values(("1",)),
    "node.id": Values(("1",)),
    "plugin.key": Values(("any", "")),
    "plugin.password": Values(("any",)),
}
VALUES: Final[Mapping[int, Mapping[str, Values]]] = {
    TOPIC: TOPIC_VALUES,
    GROUP: GROUP_VALUES,
    CLIENT_METRICS: CLIENT_METRICS_VALUES,
    BROKER: BROKER_VALUES,
}
LISTS: Final[Mapping[int, Sequence[str]]] = {
    TOPIC: ("cleanup.policy", "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"),
    GROUP: (),
    CLIENT_METRICS: ("metrics", "match"),
    BROKER: ("log.cleanup.policy",),
}
ODD_KEYS: Final = ("", "odd.key", "retention.MS", "message.format.version", " retention.ms", "segment.bytes ")
