"""The errors of a group's member, besides those of every client."""

from broker.client.errors import ClientError


class CommitFailed(ClientError):
    """The group has removed this member: its offsets were not committed, and other members go on from older ones.

    Poll more often, return fewer records per poll (`max.poll.records`), or raise `max.poll.interval.ms`.
    """


class RebalanceInProgress(ClientError):
    """The group is rebalancing: the offsets were not committed. Poll, which completes that, and commit again."""


class AssignmentError(ClientError):
    """An assignor broke a rule, or a member of the group sent a subscription or an assignment that cannot be read."""
