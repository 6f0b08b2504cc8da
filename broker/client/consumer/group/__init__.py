"""A consumer's membership in its group: both of Kafka's group protocols, assignors, and the group's offsets."""

from broker.client.consumer.errors import AssignmentError, CommitFailed, RebalanceInProgress
from broker.client.consumer.group.assignment_changes import RebalanceListener
from broker.client.consumer.group.assignors import Assignor
from broker.client.consumer.group.identity import GroupMetadata
from broker.client.consumer.group.member import GroupMember

__all__ = [
    "AssignmentError",
    "Assignor",
    "CommitFailed",
    "GroupMember",
    "GroupMetadata",
    "RebalanceInProgress",
    "RebalanceListener",
]
