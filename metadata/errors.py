"""The errors of the controller, named after Kafka's error codes."""

from typing import ClassVar, Final

# A message that quotes a name of 32,767 bytes would not fit into the string of a response.
MESSAGE_LENGTH_MAX: Final = 2_000


class ApiError(Exception):
    """`name` is the name of Kafka's error code, and `message` is sent to the client.

    An error that becomes an element of a response is stored without its traceback. The frames of the traceback refer to
    the response, and such a cycle would stay in memory until the garbage collector finds it.
    """

    name: ClassVar[str] = "UNKNOWN_SERVER_ERROR"
    default_message: ClassVar[str] = "The server experienced an unexpected error when processing the request."

    def __init__(self, message: str | None = None) -> None:
        self.message = self.default_message if message is None else message[:MESSAGE_LENGTH_MAX]
        super().__init__(f"{self.name}: {self.message}")


class BrokerIdNotRegistered(ApiError):
    name = "BROKER_ID_NOT_REGISTERED"
    default_message = "The given broker ID was not registered."


class ClusterAuthorizationFailed(ApiError):
    name = "CLUSTER_AUTHORIZATION_FAILED"
    default_message = "Cluster authorization failed."


class DuplicateBrokerRegistration(ApiError):
    name = "DUPLICATE_BROKER_REGISTRATION"
    default_message = "This broker ID is already in use."


class ElectionNotNeeded(ApiError):
    name = "ELECTION_NOT_NEEDED"
    default_message = "Leader election not needed for topic partition."


class EligibleLeadersNotAvailable(ApiError):
    name = "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    default_message = "Eligible topic partition leaders are not available."


class FencedLeaderEpoch(ApiError):
    name = "FENCED_LEADER_EPOCH"
    default_message = "The leader epoch in the request is older than the epoch on the broker."


class InconsistentClusterId(ApiError):
    name = "INCONSISTENT_CLUSTER_ID"
    default_message = "The clusterId in the request does not match that found on the server"


class IneligibleReplica(ApiError):
    name = "INELIGIBLE_REPLICA"
    default_message = "The new ISR contains at least one ineligible replica."


class InvalidConfig(ApiError):
    name = "INVALID_CONFIG"
    default_message = "Configuration is invalid."


class InvalidPartitions(ApiError):
    name = "INVALID_PARTITIONS"
    default_message = "Number of partitions is below 1."


class InvalidRegistration(ApiError):
    name = "INVALID_REGISTRATION"
    default_message = "The controller has considered the broker registration to be invalid."


class InvalidReplicaAssignment(ApiError):
    name = "INVALID_REPLICA_ASSIGNMENT"
    default_message = "Replica assignment is invalid."


class InvalidReplicationFactor(ApiError):
    name = "INVALID_REPLICATION_FACTOR"
    default_message = "Replication factor is below 1 or larger than the number of available brokers."


class InvalidRequest(ApiError):
    name = "INVALID_REQUEST"
    default_message = (
        "This most likely occurs because of a request being malformed by the client library or the message was sent to "
        "an incompatible broker. See the broker logs for more details."
    )


class InvalidTopic(ApiError):
    name = "INVALID_TOPIC_EXCEPTION"
    default_message = "The request attempted to perform an operation on an invalid topic."


class InvalidUpdateVersion(ApiError):
    name = "INVALID_UPDATE_VERSION"
    default_message = "The given update version was invalid."


class NewLeaderElected(ApiError):
    name = "NEW_LEADER_ELECTED"
    default_message = "The AlterPartition request successfully updated the partition state but the leader has changed."


class NoReassignmentInProgress(ApiError):
    name = "NO_REASSIGNMENT_IN_PROGRESS"
    default_message = "No partition reassignment is in progress."


class NotController(ApiError):
    """This node is not the active controller, or was replaced during the request, which may have been carried out."""

    name = "NOT_CONTROLLER"
    default_message = "This is not the correct controller for this cluster."


class NotLeaderOrFollower(ApiError):
    name = "NOT_LEADER_OR_FOLLOWER"
    default_message = "For requests intended only for the leader, this error indicates that the broker is not a leader."


class PolicyViolation(ApiError):
    name = "POLICY_VIOLATION"
    default_message = "Request parameters do not satisfy the configured policy."


class PreferredLeaderNotAvailable(ApiError):
    name = "PREFERRED_LEADER_NOT_AVAILABLE"
    default_message = "The preferred leader was not available."


class RequestTimedOut(ApiError):
    """The request timed out. It may be carried out."""

    name = "REQUEST_TIMED_OUT"
    default_message = "The request timed out."


class StaleBrokerEpoch(ApiError):
    name = "STALE_BROKER_EPOCH"
    default_message = "Broker epoch has changed."


class ThrottlingQuotaExceeded(ApiError):
    """The client's quota on changes of metadata is used up (KIP-599); the client repeats the request later."""

    name = "THROTTLING_QUOTA_EXCEEDED"
    default_message = "The throttling quota has been exceeded."


class TopicAlreadyExists(ApiError):
    name = "TOPIC_ALREADY_EXISTS"
    default_message = "Topic with this name already exists."


class TopicDeletionDisabled(ApiError):
    name = "TOPIC_DELETION_DISABLED"
    default_message = "Topic deletion is disabled."


class UnknownTopicId(ApiError):
    name = "UNKNOWN_TOPIC_ID"
    default_message = "This server does not host this topic ID."


class UnknownTopicOrPartition(ApiError):
    name = "UNKNOWN_TOPIC_OR_PARTITION"
    default_message = "This server does not host this topic-partition."


class UnsupportedVersion(ApiError):
    name = "UNSUPPORTED_VERSION"
    default_message = "The version of API is not supported."
