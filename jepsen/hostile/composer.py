"""Composes messages of any API from their schema: plausible values by field name, or hostile values by type.

A plausible message names existing topics, groups and members, so that a request passes the first checks of its handler.
`hostility` is the probability, for each field, of a value that is only valid for its type.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeAlias

from broker.wire.schema import FieldSpec, FieldType
from jepsen.hostile.batches import sound_batch, spoiled_batch
from jepsen.hostile.target import (
    CLASSIC_GROUPS,
    CONSUMER_GROUPS,
    FAKE_BROKER_ID,
    FAKE_DIRECTORY,
    FAKE_INCARNATION,
    GROUPS,
    INSTANCES,
    MEMBERS,
    NODE_ID,
    PASSING_TOPICS,
    PASSING_USERS,
    SCRAM_USER,
    SUPER_USER,
    TOKEN_USER,
    TOPICS,
    UNKNOWN_ID,
    Target,
)

_BITS: Final = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
STRINGS: Final = (
    *("", ".", "..", "a/b", "../../etc", "a\0b", "\n", "%s%n", "é漢🐘", "__consumer_offsets", "__cluster_metadata"),
    *(
        "x" * 249,
        "x" * 250,
        "x" * 32_766,
        "漢" * 5_000,
        "true",
        "-1",
        "9" * 40,
        "NaN",
        "1e999",
        "0x10",
        ",",
        "[",
        "(?:",
    ),
    *("a=b", "all", "null", "\ufffd", "\u202e", "hostile*", " "),
)
REGEXES: Final = (
    *(
        "hostile-.*",
        "hostile-[0-3]",
        ".*",
        "",
        "(",
        "a{1000}",
        "(a{1,100}){1,100}",
        "(((a*)*)*)*b",
        "[^",
        "\\",
        "a|" * 500,
    ),
    *("hostile-(0|1|2)", "[a-z]+-\\d", "(?i)HOSTILE.*", "(?P<n>x)\\1", "\\pL+", "x*" * 300, "\\Q.*", "hostile-0$|^z"),
)
CONFIGS: Final = (
    *("retention.ms", "retention.bytes", "segment.bytes", "cleanup.policy", "max.message.bytes", "min.insync.replicas"),
    *("compression.type", "message.timestamp.type", "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"),
    *("flush.messages", "segment.ms", "delete.retention.ms", "message.timestamp.before.max.ms", "unknown.config"),
)
CONFIG_VALUES: Final = (
    *("1000000", "100000", "compact", "delete", "compact,delete", "zstd", "lz4", "producer", "LogAppendTime", "1", "0"),
    *("-1", "-2", "9223372036854775807", "9223372036854775808", "true", "", "CreateTime", "65536", "1.5"),
)
FEATURES: Final = ("metadata.version", "kraft.version", "group.version", "transaction.version", "unknown.version")
SUBSCRIPTION: Final = b"\0\0" + b"\0\0\0\1" + b"\0\x09hostile-0" + b"\xff\xff\xff\xff"

Choose: TypeAlias = Callable[["Composer"], Any]


def _one_of(*values: Any) -> Choose:
    return lambda composer: composer.rng.choice(values)


_TOPIC: Final = _one_of(*TOPICS, *TOPICS, *PASSING_TOPICS[:2], "hostile-none")
_EPOCH: Final = _one_of(-1, -1, 0, 0, 1, 2, 3)
_NODE: Final = _one_of(NODE_ID, NODE_ID, FAKE_BROKER_ID, -1, 99)
_PORT: Final = _one_of(9, 9093, 0, 65_535)
_PRINCIPAL: Final = _one_of(
    *(f"User:{SCRAM_USER}", f"User:{TOKEN_USER}", f"User:{PASSING_USERS[0]}", "User:*", "User:", "Group:x", "User"),
    "user:漢",
)
_HOST: Final = _one_of("*", "*", "127.0.0.1", "127.0.0.2", "::1", "0.0.0.0/0", "localhost")
_PERIOD: Final = _one_of(-1, 0, 1, 1_000, 30_000, 2**63 - 1, -2)
# Generators by the name of a field, or by the names of its class and the field, which take precedence.
_PLAUSIBLE: Final[dict[str, Choose]] = {
    "topic": _TOPIC,
    "topic_name": _TOPIC,
    "name": _TOPIC,
    "topic_names": _one_of(*PASSING_TOPICS, "hostile-none"),
    "DeleteTopicState.name": _one_of(*PASSING_TOPICS, None, "hostile-none"),
    "DeleteTopicState.topic_id": _one_of(bytes(16), UNKNOWN_ID),
    "CreatableTopic.name": _one_of(*PASSING_TOPICS, *TOPICS[:1]),
    "CreatePartitionsTopic.name": _one_of(*PASSING_TOPICS),
    "ReassignableTopic.name": _one_of(*PASSING_TOPICS),
    "subscribed_topic_names": _TOPIC,
    "subscribed_topic_regex": _one_of(None, None, *REGEXES),
    "topic_id": lambda composer: composer.rng.choice((*composer.target.topic_ids, bytes(16), UNKNOWN_ID)),
    "group_id": _one_of(*GROUPS),
    "groups": _one_of(*GROUPS),
    "group_ids": _one_of(*GROUPS),
    "groups_names": _one_of(*GROUPS),
    "key": _one_of(*GROUPS),
    "coordinator_keys": _one_of(*GROUPS),
    "JoinGroupRequest.group_id": _one_of(*CLASSIC_GROUPS, CONSUMER_GROUPS[0]),
    "ConsumerGroupHeartbeatRequest.group_id": _one_of(*CONSUMER_GROUPS, CLASSIC_GROUPS[0]),
    "member_id": _one_of(*MEMBERS, ""),
    "group_instance_id": _one_of(None, None, *INSTANCES),
    "instance_id": _one_of(None, None, *INSTANCES),
    "protocol_type": _one_of("consumer", "consumer", "connect"),
    "protocol_name": _one_of("range", "range", "sticky"),
    "JoinGroupRequestProtocol.name": _one_of("range", "sticky"),
    "metadata": _one_of(SUBSCRIPTION, SUBSCRIPTION, SUBSCRIPTION[:7], b"", b"\xff" * 30),
    "assignment": _one_of(SUBSCRIPTION, b"", b"\x7f" * 9),
    "server_assignor": _one_of(None, "uniform", "range"),
    "rack_id": _one_of(None, "", "rack"),
    "FetchRequest.rack_id": _one_of("", "rack"),
    "acks": _one_of(-1, -1, -1, 1, 0),
    "transactional_id": _one_of(None, None, None, None, "hostile-transaction"),
    "timeout_ms": _one_of(1, 20, 100),
    "max_wait_ms": _one_of(0, 0, 1, 10),
    "rebalance_timeout_ms": _one_of(20, 50),
    "session_timeout_ms": _one_of(100, 500),
    "min_bytes": _one_of(0, 1, 1),
    "max_bytes": _one_of(1, 4_096, 65_536),
    "partition_max_bytes": _one_of(0, 1, 4_096, 16_384),
    "index": _one_of(0, 1, 2, 3),
    "partition": _one_of(0, 1, 2, 3),
    "partition_index": _one_of(0, 1, 2, 3),
    "partitions": _one_of(0, 1, 2, 3),
    "partition_indexes": _one_of(0, 1, 2, 3),
    "num_partitions": _one_of(-1, 1, 2, 3),
    "count": _one_of(1, 2, 3, 4),
    "replication_factor": _one_of(-1, 1, 1, 2),
    "broker_ids": _NODE,
    "replicas": _NODE,
    "new_isr": _NODE,
    "broker_id": _one_of(FAKE_BROKER_ID, FAKE_BROKER_ID, 99),
    "controller_id": _one_of(FAKE_BROKER_ID, 99),
    "voter_id": _one_of(FAKE_BROKER_ID, 99),
    "voter_directory_id": _one_of(FAKE_DIRECTORY, UNKNOWN_ID),
    "replica_id": _one_of(-1, -1, -1, FAKE_BROKER_ID, 99, -2),
    "current_leader_epoch": _EPOCH,
    "leader_epoch": _EPOCH,
    "partition_epoch": _EPOCH,
    "member_epoch": _one_of(0, 0, 1, 2, 3, -1, -2),
    "generation_id": _one_of(-1, 0, 1, 2, 3),
    "generation_id_or_member_epoch": _one_of(-1, -1, 0, 1, 2, 3),
    "session_id": _one_of(0, 0, 1, 77),
    "session_epoch": _one_of(-1, -1, 0, 1, 2),
    "fetch_offset": _one_of(0, 0, 1, 5, 100),
    "last_fetched_epoch": _EPOCH,
    "log_start_offset": _one_of(-1, 0, 5),
    "committed_offset": _one_of(0, 1, 5, 1000),
    "committed_leader_epoch": _EPOCH,
    "committed_metadata": _one_of("", "note", None),
    "DeleteRecordsPartition.offset": _one_of(-1, 0, 1, 5),
    "timestamp": _one_of(-1, -2, -3, -4, -5, 0, 1_700_000_000_000),
    "isolation_level": _one_of(0, 1),
    "resource_type": _one_of(2, 2, 2, 4, 32, 8, 16),
    "resource_name": _one_of(*TOPICS[2:], *GROUPS, "1", "99", ""),
    "resource_types": _one_of(2, 4, 32, 8),
    "AlterableConfig.name": _one_of(*CONFIGS),
    "CreatableTopicConfig.name": _one_of(*CONFIGS),
    "configuration_keys": _one_of(*CONFIGS),
    "value": _one_of(*CONFIG_VALUES, None),
    "config_operation": _one_of(0, 0, 1, 2, 3),
    "feature": _one_of(*FEATURES),
    "Feature.name": _one_of(*FEATURES),
    "cluster_id": lambda composer: composer.rng.choice((composer.target.cluster_id,) * 3 + ("hostile", None)),
    "incarnation_id": _one_of(FAKE_INCARNATION, FAKE_INCARNATION, UNKNOWN_ID),
    "log_dirs": _one_of(FAKE_DIRECTORY),
    "id_": _one_of(FAKE_DIRECTORY, UNKNOWN_ID),
    "offline_log_dirs": _one_of(FAKE_DIRECTORY, UNKNOWN_ID),
    "Listener.name": _one_of("PLAINTEXT", "CONTROLLER", "OTHER"),
    "host": _one_of("127.0.0.1", "", "nowhere.invalid"),
    "port": _PORT,
    "client_software_name": _one_of("hostile", "a b", ""),
    "client_software_version": _one_of("1", "-"),
    "producer_id": _one_of(-1, -1, 0, 1, 1000),
    "producer_epoch": _one_of(-1, -1, 0, 1),
    "response_partition_limit": _one_of(1, 10, 2_000),
    "states_filter": _one_of("Stable", "Empty", "Dead", "nothing"),
    "types_filter": _one_of("classic", "consumer", "share"),
    "request_principal": _one_of(b"User:hostile", b"", b"\0\0\x05User\x08hostile\0\0", b"\0\1\5User"),
    "client_host_address": _one_of(bytes([127, 0, 0, 1]), bytes(16), b"", b"123"),
    "principal": _PRINCIPAL,
    "principal_filter": _PRINCIPAL,
    "AclCreation.host": _HOST,
    "host_filter": _HOST,
    "AclCreation.resource_type": _one_of(2, 2, 3, 4, 5, 6, 7),
    "AclCreation.resource_name": _one_of(*TOPICS[:3], *GROUPS[:2], "hostile", "kafka-cluster", "*", ""),
    "resource_name_filter": _one_of(*TOPICS[:3], *GROUPS[:2], "hostile", "kafka-cluster", "*", None),
    "resource_type_filter": _one_of(1, 1, 2, 3, 4, 5, 6, 7),
    "resource_pattern_type": _one_of(3, 3, 4),
    "pattern_type_filter": _one_of(1, 1, 2, 3, 4),
    "operation": _one_of(1, *range(2, 16)),
    "permission_type": _one_of(2, 3, 3, 1),
    "mechanism": _one_of(1, 2, 1, 2, 0),
    "SaslHandshakeRequest.mechanism": _one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"),
    "auth_bytes": _one_of(b"", b"\0a\0b", b"n,,n=a,r=b", b"n,,\x01auth=Bearer a.b.c\x01\x01"),
    "ScramCredentialDeletion.name": _one_of(*PASSING_USERS),
    "ScramCredentialUpsertion.name": _one_of(*PASSING_USERS),
    "UserName.name": _one_of(*PASSING_USERS, SCRAM_USER),
    "iterations": _one_of(4_096, 4_096, 4_095, 16_384, 16_385),
    "salt": _one_of(b"salt", b"", bytes(1_001)),
    "salted_password": _one_of(bytes(32), bytes(64), b""),
    "principal_type": _one_of("User", "User", ""),
    "principal_name": _one_of(SUPER_USER, SCRAM_USER, TOKEN_USER, *PASSING_USERS[:2]),
    "owner_principal_type": _one_of("", "", "User", None),
    "owner_principal_name": _one_of("", "", SCRAM_USER, None),
    "max_lifetime_ms": _PERIOD,
    "renew_period_ms": _PERIOD,
    "expiry_time_period_ms": _PERIOD,
    "records": lambda composer: _records(composer.rng),
    "request_data": lambda composer: composer.enveloped(composer),
}


def _not_composed(_: "Composer") -> bytes:
    return b""


def _records(rng: Random) -> bytes:
    """The records of one partition in a Produce request: in most cases one valid batch."""
    kind = rng.randrange(10)
    if kind < 6:
        return sound_batch(rng)
    return spoiled_batch(rng) if kind < 9 else sound_batch(rng) + spoiled_batch(rng)


class Composer:
    """Composes messages from the random numbers of `rng`. `enveloped` makes the request that an Envelope carries."""

    rng: Random
    target: Target
    enveloped: Choose

    def __init__(self, rng: Random, target: Target, hostility: float, enveloped: Choose = _not_composed) -> None:
        self.rng = rng
        self.target = target
        self.enveloped = enveloped
        self._hostility = hostility

    def compose(self, cls: type[Any], version: int) -> Any:
        """Compose a message of `cls` with the fields of `version`. It may contain a null that cannot be encoded."""
        rng, hostility = self.rng, self._hostility
        values = {}
        for spec in cls.__fields__:
            if version not in spec.versions:
                continue
            if version in spec.tagged and rng.random() < 0.4:
                continue
            if rng.random() < hostility:
                values[spec.name] = self._hostile(spec, version)
            else:
                values[spec.name] = self._plausible(cls, spec, version)
        return cls(**values)

    def _plausible(self, cls: type[Any], spec: FieldSpec, version: int) -> Any:
        type_ = spec.type
        choose = _PLAUSIBLE.get(f"{cls.__name__}.{spec.name}") or _PLAUSIBLE.get(spec.name)
        if isinstance(type_, list):
            if version in spec.nullable and self.rng.random() < 0.1:
                return None
            return [self._element(type_[0], choose, version) for _ in range(self.rng.choice((0, 1, 1, 1, 1, 2, 3)))]
        if isinstance(type_, type):
            return self.compose(type_, version)
        if choose is None:
            return self._hostile(spec, version) if self.rng.random() < 0.2 else _constant(spec)
        value = choose(self)
        return _constant(spec) if value is None and version not in spec.nullable else value

    def _element(self, type_: FieldType, choose: Choose | None, version: int) -> Any:
        if isinstance(type_, type):
            return self.compose(type_, version)
        if choose is not None and self.rng.random() >= self._hostility and (value := choose(self)) is not None:
            return value
        return self._any(type_)

    def _hostile(self, spec: FieldSpec, version: int) -> Any:
        type_, rng = spec.type, self.rng
        if version in spec.nullable and rng.random() < 0.2:
            return None
        if isinstance(type_, type):
            return self.compose(type_, version)
        if isinstance(type_, list):
            element = type_[0]
            count = rng.choice((0, 0, 1, 2, 5, 130 if isinstance(element, str) else 30))
            if count and rng.random() < 0.3:  # repeat the same element
                return [self._any_element(element, version)] * count
            return [self._any_element(element, version) for _ in range(count)]
        return self._any(type_)

    def _any_element(self, type_: FieldType, version: int) -> Any:
        return self.compose(type_, version) if isinstance(type_, type) else self._any(type_)

    def _any(self, type_: FieldType) -> Any:
        rng = self.rng
        if type_ in _BITS:
            return _number(rng, _BITS[str(type_)], str(type_).startswith("u"))
        match type_:
            case "string":
                return rng.choice(STRINGS)
            case "uuid":
                return rng.choice((bytes(16), UNKNOWN_ID, b"\xff" * 16, bytes(15) + b"\1", FAKE_DIRECTORY))
            case "bool":
                return rng.random() < 0.5
            case "records":
                return spoiled_batch(rng)
            case "float64":
                return rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e308))
        return rng.choice((b"", b"\0", b"\xff" * 4, b"\x7f" * 130, rng.randbytes(rng.randrange(40))))


def _number(rng: Random, bits: int, is_unsigned: bool) -> int:
    top = 1 << bits - 1
    if is_unsigned:
        return rng.choice((0, 1, top - 1, top, 2 * top - 1))
    return rng.choice((0, 1, -1, 2, -2, top - 1, -top, top - 2, 1 - top, rng.randrange(-top, top), rng.randrange(100)))


def _constant(spec: FieldSpec) -> Any:
    return spec.default() if callable(spec.default) else spec.default
