"""Errors as Kafka's tools print them: its exceptions by name, with their texts where a broker sends none."""

from collections.abc import Mapping
from typing import Final

from broker.client.error_explanations import EXPLANATIONS
from broker.client.errors import ClientError, TimedOut, UnsupportedByBroker
from broker.printable import printable
from broker.wire.errors import ErrorCode, KafkaError

_PACKAGE: Final = "org.apache.kafka.common.errors"
# Kafka's exceptions whose names do not follow from the error code's.
_NAMES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServer",
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecord",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLarge",
    ErrorCode.REQUEST_TIMED_OUT: "Timeout",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLarge",
    ErrorCode.NETWORK_EXCEPTION: "Network",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorage",
    ErrorCode.INVALID_CONFIG: "InvalidConfiguration",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopic",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExists",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmpty",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorization",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorization",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorization",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "DelegationTokenDisabled",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "UnsupportedByAuthentication",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "DelegationTokenAuthorization",
}
_TEXTS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the request.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The requested offset is not within the range of offsets maintained by the server.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.LEADER_NOT_AVAILABLE: "There is no leader for this topic-partition as we are in the middle of a "
    "leadership election.",
    ErrorCode.REQUEST_TIMED_OUT: "The request timed out.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.INVALID_GROUP_ID: "The configured groupId is invalid.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator is not aware of this member.",
    ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing, so a rejoin is needed.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Deleting offsets of a topic is forbidden while the consumer group is "
    "actively subscribed to it.",
    ErrorCode.POLICY_VIOLATION: "Request parameters do not satisfy the configured policy.",
    ErrorCode.NOT_CONTROLLER: "This is not the correct controller for this cluster.",
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation Token feature is not enabled.",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "Delegation Token is not found on server.",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "Specified Principal is not valid Owner/Renewer.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL "
    "channels and on delegation token authenticated channels.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "Delegation Token is expired.",
}


def message_of(error: BaseException) -> str:
    """The text of an error alone: the broker's, or that of Kafka's exception for its code."""
    if isinstance(error, KafkaError):
        is_of_broker = error.message not in ("", EXPLANATIONS.get(error.code))
        return printable(error.message) if is_of_broker else _TEXTS.get(error.code, error.message or error.code.name)
    return printable(str(error))


def exception_of(error: BaseException) -> str:
    """An error as Java prints an exception: its class and its text."""
    match error:
        case KafkaError():
            name = _NAMES.get(error.code) or "".join(part.capitalize() for part in error.code.name.split("_"))
        case TimedOut():
            name = "Timeout"
        case UnsupportedByBroker():
            name = "UnsupportedVersion"
        case ClientError():
            name = "Api"
        case _:
            return f"{type(error).__name__}: {printable(str(error))}"
    return f"{_PACKAGE}.{name}Exception: {message_of(error)}"
