"""Valid requests that destroy data, topics or the quorum. They are not sent, because their effect would be no bug."""

from collections.abc import Callable
from typing import Any, Final

from broker.wire.api import APIS
from broker.wire.codec import decode
from broker.wire.errors import WireError
from broker.wire.header import parse_request_header
from jepsen.hostile.target import HEALTHY_USER, NODE_ID, SCRAM_USER

# The voter that stories may add: no story fetches with its id, so the quorum never completes the addition.
ABSENT_VOTER_ID: Final = 99
_PARTITIONS_MAX: Final = 16
_PARTITIONS_MANY: Final = range(_PARTITIONS_MAX + 1, 10_000_000)
_TOPICS_MAX: Final = 50
_INTERNAL: Final = "__consumer_offsets"
_BROKER_RESOURCE: Final = 4
_KEPT_USERS: Final = (HEALTHY_USER, SCRAM_USER)


def is_harmful(message: Any) -> bool:
    """True if a request, or the request in its envelope, would damage what the healthy client relies on."""
    check = _CHECKS.get(type(message).__name__)
    return check is not None and check(message)


def _names_this_node(message: Any) -> bool:
    return any(getattr(message, field, None) == NODE_ID for field in ("broker_id", "controller_id", "voter_id"))


def _adds_voter(message: Any) -> bool:
    return bool(message.voter_id != ABSENT_VOTER_ID)


def _changes_brokers(message: Any) -> bool:
    return not message.validate_only and any(each.resource_type == _BROKER_RESOURCE for each in message.resources)


def _creates_many(message: Any) -> bool:
    """True for more partitions than a test has files for. Numbers that every node rejects may be sent."""
    topics = message.topics
    return not message.validate_only and (
        len(topics) > _TOPICS_MAX
        or any(each.num_partitions in _PARTITIONS_MANY for each in topics)
        or any(len(each.assignments) > _PARTITIONS_MAX for each in topics)
    )


def _adds_many(message: Any) -> bool:
    return not message.validate_only and any(each.count in _PARTITIONS_MANY for each in message.topics)


def _deletes_internal(message: Any) -> bool:
    return _INTERNAL in message.topic_names or any(each.name == _INTERNAL for each in message.topics)


def _moves_internal(message: Any) -> bool:
    return any(each.name == _INTERNAL for each in message.topics or ())


def _changes_kept_users(message: Any) -> bool:
    return any(each.name in _KEPT_USERS for each in (*message.deletions, *message.upsertions))


def _is_carried_out(message: Any) -> bool:
    return not message.validate_only


def _carries_harm(message: Any) -> bool:
    payload = message.request_data
    try:
        key, version, _, _, start = parse_request_header(payload)
        api = APIS.get(key)
        if api is None or not api.min_version <= version <= api.max_version:
            return False
        return is_harmful(decode(api.request, version, payload, start)[0])
    except WireError:
        return False


_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "UnregisterBrokerRequest": _names_this_node,
    "RemoveRaftVoterRequest": _names_this_node,
    "AddRaftVoterRequest": _adds_voter,
    "BrokerRegistrationRequest": _names_this_node,
    "BrokerHeartbeatRequest": _names_this_node,
    "AlterPartitionRequest": _names_this_node,
    "AssignReplicasToDirsRequest": _names_this_node,
    "AllocateProducerIdsRequest": _names_this_node,
    "ControllerRegistrationRequest": _names_this_node,
    "CreateTopicsRequest": _creates_many,
    "CreatePartitionsRequest": _adds_many,
    "DeleteTopicsRequest": _deletes_internal,
    "AlterPartitionReassignmentsRequest": _moves_internal,
    "AlterConfigsRequest": _changes_brokers,
    "IncrementalAlterConfigsRequest": _changes_brokers,
    "AlterUserScramCredentialsRequest": _changes_kept_users,
    "UpdateFeaturesRequest": _is_carried_out,
    "AlterClientQuotasRequest": _is_carried_out,
    "EnvelopeRequest": _carries_harm,
}
