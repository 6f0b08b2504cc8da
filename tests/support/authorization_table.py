"""The operations and resources that each API asks for, as in Kafka's documentation of authorization."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from broker.wire.api import APIS
from broker.wire.errors import ErrorCode
from metadata.protocol import CLUSTER_NAME, ConfigResourceType, ResourceType
from metadata.protocol import AclOperation as Op

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTION = ResourceType.TRANSACTIONAL_ID

REFUSALS: Final = {
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Right(NamedTuple):
    """An operation on a resource."""

    operation: Op
    resource_type: ResourceType
    name: str


@attrs.frozen
class Requirement:
    """One of `rights` is needed. Without any of them the response has the error `code`, or is empty if that is None."""

    rights: tuple[Right, ...]
    code: ErrorCode | None


Requirements: TypeAlias = list[Requirement]
Needs: TypeAlias = Callable[[Any, int], Requirements]


def need(*rights: Right, code: ErrorCode | None = ErrorCode.NONE) -> Requirement:
    """The error is that of the type of the first right."""
    return Requirement(rights, REFUSALS[rights[0].resource_type] if code is ErrorCode.NONE else code)


def on_cluster(operation: Op) -> Right:
    return Right(operation, CLUSTER, CLUSTER_NAME)


def cluster(operation: Op) -> Needs:
    return lambda request, version: [need(on_cluster(operation))]


def nothing(request: Any, version: int) -> Requirements:
    return []


def names_of_topics(request: Any) -> list[str]:
    return [topic.name for topic in request.topics]


def topics(operation: Op, of: Callable[[Any], list[str]] = names_of_topics) -> Needs:
    """Needs the operation on each topic of the request."""
    return lambda request, version: [need(Right(operation, TOPIC, name)) for name in of(request)]


def group(operation: Op) -> Needs:
    return lambda request, version: [need(Right(operation, GROUP, request.group_id))]


def _offset_commit(request: Any, version: int) -> Requirements:
    """The id of the topic is unknown in the requests from version 10 on."""
    return [*group(Op.READ)(request, version), *(topics(Op.READ)(request, version) if version < 10 else [])]


def _offset_fetch(request: Any, version: int) -> Requirements:
    if version < 8:
        return [*group(Op.DESCRIBE)(request, version), *topics(Op.DESCRIBE)(request, version)]
    named = [topic.name for each in request.groups for topic in each.topics or () if version < 10]
    return [
        *(need(Right(Op.DESCRIBE, GROUP, each.group_id)) for each in request.groups),
        *(need(Right(Op.DESCRIBE, TOPIC, name)) for name in named),
    ]


def _find_coordinator(request: Any, version: int) -> Requirements:
    kind = TRANSACTION if request.key_type else GROUP
    keys = request.coordinator_keys if version >= 4 else [request.key]
    return [need(Right(Op.DESCRIBE, kind, key)) for key in keys]


def _offset_delete(request: Any, version: int) -> Requirements:
    return [*group(Op.DELETE)(request, version), *topics(Op.READ)(request, version)]


def _consumer_group_heartbeat(request: Any, version: int) -> Requirements:
    names = request.subscribed_topic_names or ()
    return [*group(Op.READ)(request, version), *(need(Right(Op.DESCRIBE, TOPIC, name)) for name in names)]


def _create_topics(request: Any, version: int) -> Requirements:
    return [need(Right(Op.CREATE, TOPIC, each.name), on_cluster(Op.CREATE)) for each in request.topics]


def _delete_topics(names: list[str]) -> Requirements:
    return [need(Right(Op.DELETE, TOPIC, name), on_cluster(Op.DELETE)) for name in names]


def _init_producer_id(request: Any, version: int) -> Requirements:
    if request.transactional_id is not None:
        return [need(Right(Op.WRITE, TRANSACTION, request.transactional_id))]
    return [need(on_cluster(Op.IDEMPOTENT_WRITE), Right(Op.WRITE, TOPIC, "any"))]


def _offset_for_leader_epoch(request: Any, version: int) -> Requirements:
    return [need(Right(Op.DESCRIBE, TOPIC, each.topic), on_cluster(Op.CLUSTER_ACTION)) for each in request.topics]


def _add_partitions(request: Any, version: int) -> Requirements:
    if version >= 4:
        return [need(on_cluster(Op.CLUSTER_ACTION))]
    named = [each.name for each in request.v3_and_below_topics]
    return [
        need(Right(Op.WRITE, TRANSACTION, request.v3_and_below_transactional_id)),
        *(need(Right(Op.WRITE, TOPIC, name)) for name in named),
    ]


def _transaction(request: Any, version: int) -> Requirements:
    return [need(Right(Op.WRITE, TRANSACTION, request.transactional_id))]


def _add_offsets(request: Any, version: int) -> Requirements:
    return [*_transaction(request, version), *group(Op.READ)(request, version)]


def _txn_offset_commit(request: Any, version: int) -> Requirements:
    return [*_add_offsets(request, version), *topics(Op.READ)(request, version)]


def _markers(request: Any, version: int) -> Requirements:
    return [need(on_cluster(Op.CLUSTER_ACTION), on_cluster(Op.ALTER))]


def _configs(operation: Op) -> Needs:
    def needs(request: Any, version: int) -> Requirements:
        kinds = {ConfigResourceType.TOPIC: TOPIC, ConfigResourceType.GROUP: GROUP}
        return [
            need(
                Right(operation, kinds[each.resource_type], each.resource_name)
                if each.resource_type in kinds
                else on_cluster(operation)
            )
            for each in request.resources
        ]

    return needs


def _share_group_heartbeat(request: Any, version: int) -> Requirements:
    names = request.subscribed_topic_names or ()
    return [*group(Op.READ)(request, version), *(need(Right(Op.DESCRIBE, TOPIC, name)) for name in names)]


def _share_offsets(operation: Op) -> Needs:
    """Needs the operation on the group, and READ on the topics."""
    return lambda request, version: [
        *group(operation)(request, version),
        *(need(Right(Op.READ, TOPIC, topic.topic_name)) for topic in request.topics),
    ]


def _describe_share_offsets(request: Any, version: int) -> Requirements:
    """Without topics, the response leaves out those that the client may not describe."""
    return [
        right
        for each in request.groups
        for right in (
            need(Right(Op.DESCRIBE, GROUP, each.group_id)),
            *(need(Right(Op.DESCRIBE, TOPIC, topic.topic_name)) for topic in each.topics or ()),
        )
    ]


def _log_dirs(request: Any, version: int) -> Requirements:
    return [need(on_cluster(Op.DESCRIBE), code=None if version < 3 else ErrorCode.NONE)]


# By the names of the APIs.
TABLE: Final[Mapping[str, Needs]] = {
    "AddOffsetsToTxn": _add_offsets,
    "AddPartitionsToTxn": _add_partitions,
    "AddRaftVoter": cluster(Op.ALTER),
    "AllocateProducerIds": cluster(Op.CLUSTER_ACTION),
    "AlterClientQuotas": cluster(Op.ALTER_CONFIGS),
    "AlterConfigs": _configs(Op.ALTER_CONFIGS),
    "AlterPartition": cluster(Op.CLUSTER_ACTION),
    "AlterPartitionReassignments": cluster(Op.ALTER),
    "AlterReplicaLogDirs": cluster(Op.ALTER),
    "AlterShareGroupOffsets": _share_offsets(Op.READ),
    "AlterUserScramCredentials": cluster(Op.ALTER),
    "ApiVersions": nothing,
    "AssignReplicasToDirs": cluster(Op.CLUSTER_ACTION),
    "BrokerHeartbeat": cluster(Op.CLUSTER_ACTION),
    "BrokerRegistration": cluster(Op.CLUSTER_ACTION),
    "ConsumerGroupDescribe": lambda request, _: [need(Right(Op.DESCRIBE, GROUP, each)) for each in request.group_ids],
    "ConsumerGroupHeartbeat": _consumer_group_heartbeat,
    "ControllerRegistration": cluster(Op.CLUSTER_ACTION),
    "CreateAcls": cluster(Op.ALTER),
    # Clients of a PLAINTEXT listener may not use delegation tokens, whatever their rights are.
    "CreateDelegationToken": nothing,
    "CreatePartitions": topics(Op.ALTER),
    "CreateTopics": _create_topics,
    "DeleteAcls": cluster(Op.ALTER),
    "DeleteGroups": lambda request, _: [need(Right(Op.DELETE, GROUP, each)) for each in request.groups_names],
    "DeleteRecords": topics(Op.DELETE),
    "DeleteShareGroupOffsets": _share_offsets(Op.DELETE),
    "DeleteShareGroupState": cluster(Op.CLUSTER_ACTION),
    "DeleteTopics": lambda request, _: _delete_topics(request.topic_names),
    "DescribeAcls": cluster(Op.DESCRIBE),
    "DescribeClientQuotas": cluster(Op.DESCRIBE_CONFIGS),
    # Without DESCRIBE on the cluster, no operations on it are authorized.
    "DescribeCluster": nothing,
    "DescribeConfigs": _configs(Op.DESCRIBE_CONFIGS),
    "DescribeDelegationToken": nothing,
    "DescribeGroups": lambda request, _: [need(Right(Op.DESCRIBE, GROUP, each)) for each in request.groups],
    "DescribeLogDirs": _log_dirs,
    "DescribeProducers": topics(Op.READ),
    "DescribeQuorum": cluster(Op.DESCRIBE),
    "DescribeShareGroupOffsets": _describe_share_offsets,
    "DescribeTopicPartitions": topics(Op.DESCRIBE),
    "DescribeTransactions": lambda request, _: [
        need(Right(Op.DESCRIBE, TRANSACTION, each)) for each in request.transactional_ids
    ],
    "DescribeUserScramCredentials": cluster(Op.DESCRIBE),
    "ElectLeaders": cluster(Op.ALTER),
    "EndTxn": _transaction,
    "Envelope": cluster(Op.CLUSTER_ACTION),
    "ExpireDelegationToken": nothing,
    "Fetch": topics(Op.READ, lambda request: [each.topic for each in request.topics]),
    "FindCoordinator": _find_coordinator,
    "GetTelemetrySubscriptions": nothing,
    "Heartbeat": group(Op.READ),
    "IncrementalAlterConfigs": _configs(Op.ALTER_CONFIGS),
    "InitializeShareGroupState": cluster(Op.CLUSTER_ACTION),
    "InitProducerId": _init_producer_id,
    "JoinGroup": group(Op.READ),
    "LeaveGroup": group(Op.READ),
    "ListConfigResources": cluster(Op.DESCRIBE_CONFIGS),
    # The response leaves out what the client may not describe.
    "ListGroups": nothing,
    "ListOffsets": topics(Op.DESCRIBE),
    "ListPartitionReassignments": cluster(Op.DESCRIBE),
    "ListTransactions": nothing,
    "Metadata": topics(Op.DESCRIBE),
    "OffsetCommit": _offset_commit,
    "OffsetDelete": _offset_delete,
    "OffsetFetch": _offset_fetch,
    "OffsetForLeaderEpoch": _offset_for_leader_epoch,
    "Produce": topics(Op.WRITE, lambda request: [each.name for each in request.topic_data]),
    "PushTelemetry": nothing,
    "ReadShareGroupState": cluster(Op.CLUSTER_ACTION),
    "ReadShareGroupStateSummary": cluster(Op.CLUSTER_ACTION),
    "RemoveRaftVoter": cluster(Op.ALTER),
    "RenewDelegationToken": nothing,
    # Any client may authenticate, before it has a name.
    "SaslAuthenticate": nothing,
    "SaslHandshake": nothing,
    # Also READ on each topic, in the response for its partitions.
    "ShareAcknowledge": group(Op.READ),
    "ShareFetch": group(Op.READ),
    "ShareGroupDescribe": lambda request, _: [need(Right(Op.DESCRIBE, GROUP, each)) for each in request.group_ids],
    "ShareGroupHeartbeat": _share_group_heartbeat,
    "SyncGroup": group(Op.READ),
    "TxnOffsetCommit": _txn_offset_commit,
    "UnregisterBroker": cluster(Op.ALTER),
    "UnregisterController": cluster(Op.ALTER),
    "UpdateFeatures": cluster(Op.ALTER),
    "WriteShareGroupState": cluster(Op.CLUSTER_ACTION),
    "WriteTxnMarkers": _markers,
}


def requirements(request: Any, version: int, table: Mapping[str, Needs] = TABLE) -> Requirements:
    """The requirements of a request."""
    return table[APIS[type(request).__message__.key].name](request, version)


def error_codes(message: Any) -> list[ErrorCode]:
    """All error codes in a response."""
    codes: list[ErrorCode] = []
    for spec in type(message).__fields__:
        value = getattr(message, spec.name)
        if spec.name.endswith("error_code"):
            codes.append(ErrorCode(value))
        elif isinstance(value, list):
            for each in value:
                codes += error_codes(each) if hasattr(type(each), "__fields__") else []
        elif hasattr(type(value), "__fields__"):
            codes += error_codes(value)
    return codes


# On the controllers' listener.
CONTROLLER_TABLE: Final[Mapping[str, Needs]] = {**TABLE, "DescribeCluster": cluster(Op.ALTER)}


def refusals(response: Any) -> set[ErrorCode]:
    """The errors of authorization in a response."""
    return set(error_codes(response)) & set(REFUSALS.values())


def grants(needed: Requirements) -> Iterator[tuple[list[Right], Requirement | None]]:
    """Rights to grant, with the requirement that they leave out: each one in turn, and then none, in all ways."""
    for missing in needed:
        others = [each for each in needed if each.rights != missing.rights]
        yield [next(right for right in each.rights if right not in missing.rights) for each in others], missing
    for alternative in range(max([len(each.rights) for each in needed], default=1)):
        yield [each.rights[min(alternative, len(each.rights) - 1)] for each in needed], None
