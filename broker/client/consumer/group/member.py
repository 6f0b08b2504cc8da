"""A consumer's membership in its group, by either of Kafka's two protocols.

The consumer polls; a background task joins, sends heartbeats and rebalances, and waits for polls where the assignment
changes. A poll is:

    member.poll_made()
    await member.apply_changes()
    ... return records, or wait for them and for member.wait_for_changes(), and then poll again
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Final

import trio

from broker.client.cluster import Cluster
from broker.client.consumer.config import ConsumerConfig
from broker.client.consumer.group.assignment_changes import (
    AssignmentChange,
    AssignmentChanges,
    RebalanceListener,
    SubscriptionState,
)
from broker.client.consumer.group.assignors import Assignor
from broker.client.consumer.group.context import GroupCoordinator, MemberContext, Membership
from broker.client.consumer.group.coordinator_trouble import CoordinatorTrouble
from broker.client.consumer.group.identity import GroupMetadata
from broker.client.consumer.group.offsets import CommitCallback, GroupOffsets, Offsets
from broker.client.consumer.group.polls import PollTimer
from broker.client.consumer.group.protocols import chosen_membership
from broker.client.consumer.group.signal import Signal
from broker.client.consumer.group.subscribed_topics import Pattern, SubscribedTopics, subscribed_topics
from broker.client.errors import ClientError, KafkaError
from broker.client.types import OffsetAndMetadata, TopicPartition
from broker.wire.errors import ErrorCode

_log: Final = logging.getLogger(__name__)

UNSUBSCRIBED_REASON: Final = "the consumer unsubscribed from all topics"
CLOSED_REASON: Final = "the consumer is being closed"


class GroupMember:
    """See the module's docstring. Without a subscription it commits and fetches offsets without being a member.

    `assignors` are for classic groups, instead of `partition.assignment.strategy`. Nothing moves unless `run` runs.
    """

    def __init__(
        self, cluster: Cluster, config: ConsumerConfig, state: SubscriptionState, *, assignors: Sequence[Assignor] = ()
    ) -> None:
        assert config.group_id is not None, "a member has a group"
        self._config = config
        self._state = state
        self._assignors = assignors
        self._offsets = GroupOffsets(cluster, config.group_id, self, config.default_api_timeout_ms)
        self._changes = AssignmentChanges(state, self._commit_before_rebalance, config.max_poll_interval_ms)
        self._polls = PollTimer(config.max_poll_interval_ms)
        self.coordinator_trouble = CoordinatorTrouble(config.group_id)
        coordinator = GroupCoordinator(cluster, config.group_id, self.coordinator_trouble)
        self._context = MemberContext(coordinator, config, state, self._changes, self._polls)
        self._subscription: SubscribedTopics | None = None
        self._membership: Membership | None = None
        self._membership_scope = trio.CancelScope()
        # The place in the group at the last poll, or before it if this was no member any more.
        self._last_metadata = GroupMetadata(config.group_id, group_instance_id=config.group_instance_id)
        self._failure: Exception | None = None
        self._changed = Signal()
        self._commit_at = 0.0

    async def run(self) -> None:
        """Carries commits, and keeps the membership, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._offsets.run)
            nursery.start_soon(self._keep_membership)

    # Subscription

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: Pattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Replaces the subscription and the listener. Raises ConfigError.

        A pattern matches whole names. Given as text it is evaluated by the coordinator, in RE2's syntax, where that has
        the consumer protocol; a compiled one is always evaluated here.
        """
        subscription = subscribed_topics(topics, pattern)
        self._changes.listener = listener or RebalanceListener()
        self._polls.restart()
        if self._subscription is None:
            self._commit_at = trio.current_time() + self._config.auto_commit_interval_ms / 1000
        self._subscription, self._failure = subscription, None
        if self._membership is not None:
            self._membership.change_subscription(subscription)
        self._changed.notify()

    async def unsubscribe(self) -> None:
        """Commits, revokes and leaves; returns when the coordinator knows, or `request.timeout.ms` is over."""
        await self._leave(UNSUBSCRIBED_REASON)

    async def leave(self, timeout_s: float = inf) -> None:
        """As `unsubscribe`, when the consumer closes; waits for commits that are under way.

        After `timeout_s`, the commit and the listener are interrupted, and the coordinator is not told.
        """
        await self._leave(CLOSED_REASON, timeout_s)
        try:
            await self._offsets.commit({}, self._config.request_timeout_ms)
        except (ClientError, KafkaError) as error:
            _log.warning("group %s: commits were under way when the consumer closed: %s", self._context.group_id, error)

    @property
    def subscribed_names(self) -> frozenset[str]:
        """The names of a subscription by name."""
        return frozenset() if self._subscription is None else self._subscription.names

    # Polls

    def poll_made(self) -> None:
        """Restarts `max.poll.interval.ms`; commits automatically what earlier polls have returned, when that is due."""
        if self._subscription is not None:
            self._polls.restart()
        if not self._config.enable_auto_commit or trio.current_time() < self._commit_at:
            return
        self._commit_at = trio.current_time() + self._config.auto_commit_interval_ms / 1000
        offsets = self._state.consumed_offsets()
        if offsets and (self._membership is None or self._membership.is_member):
            self._offsets.commit_automatically(offsets)

    async def apply_changes(self) -> None:
        """Commits, calls the listener and replaces the assignment, as far as a rebalance waits for that.

        Raises what the listener raises. Raises KafkaError, UnsupportedByBroker, AssignmentError if the member cannot be
        in its group, at every poll until it subscribes again.
        """
        await self._changes.apply()
        if self._membership is not None and not self._membership.is_member:
            # The background task asks for this too, but not before it has run: no record may be returned until then.
            await self._changes.lose()
        self._last_metadata = self.group_metadata()
        if self._failure is not None:
            raise self._failure

    @property
    def has_changes(self) -> bool:
        """True if the next `apply_changes` has something to do, or to raise."""
        return self._changes.is_pending or self._failure is not None

    async def wait_for_changes(self) -> None:
        """Returns when the next `apply_changes` has something to do, or to raise."""
        if not self.has_changes:
            await self._changes.wait_pending()

    # Offsets

    async def commit(self, offsets: Offsets, *, timeout_ms: float | None = None) -> None:
        """Returns when these offsets are committed, and so are all that were to be committed before.

        Raises CommitFailed, RebalanceInProgress, KafkaError; TimedOut after `default.api.timeout.ms`.
        """
        await self._offsets.commit(offsets, timeout_ms)

    def commit_soon(self, offsets: Offsets, callback: CommitCallback | None = None) -> None:
        """Commits in the background, in the order of the calls. Raises ClientError if too many commits wait."""
        self._offsets.commit_soon(offsets, callback)

    async def committed(
        self, partitions: Collection[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets, None where there is none. Raises KafkaError, TimedOut."""
        return await self._offsets.committed(partitions, timeout_ms)

    def group_metadata(self) -> GroupMetadata:
        """This consumer's place in its group, for transactions (KIP-447).

        It is the last place of a consumer that is no member any more, so that the coordinator refuses its offsets. The
        coordinator accepts offsets from a consumer that never was a member.
        """
        if self._membership is not None and self._membership.is_member:
            return self._membership.identity()
        return self._last_metadata

    # For the group's offsets

    def committing_as(self) -> GroupMetadata:
        if self._membership is not None:
            return self._membership.committing_as()
        return GroupMetadata(self._context.group_id)

    def fetching_as(self) -> GroupMetadata:
        if self._membership is not None:
            return self._membership.fetching_as()
        return GroupMetadata(self._context.group_id)

    def on_commit_refused(self, who: GroupMetadata, code: ErrorCode) -> bool:
        return self._membership is None or self._membership.on_commit_refused(who, code)

    # The inside

    async def _keep_membership(self) -> None:
        while True:
            while self._subscription is None or self._failure is not None:
                await self._changed.wait()
            with trio.CancelScope() as self._membership_scope:
                try:
                    self._membership = await chosen_membership(self._context, self._subscription, self._assignors)
                    await self._membership.run()
                except (ClientError, KafkaError) as failure:
                    await self._fail(failure)

    async def _fail(self, failure: Exception) -> None:
        """Makes the next poll give up all partitions as lost, and raise the error."""
        self._membership, self._failure = None, failure
        self._polls.stop()
        self._changes.withdraw()
        await self._changes.request(AssignmentChange(is_lost=True))

    async def _leave(self, reason: str, timeout_s: float = inf) -> None:
        membership, is_subscribed = self._membership, self._subscription is not None
        if not is_subscribed and self._config.enable_auto_commit:
            await self._commit_before_rebalance(self._state.consumed_offsets())
        if is_subscribed:
            is_lost = membership is None or not membership.is_member
            change = AssignmentChange(is_lost=is_lost, commits=self._config.enable_auto_commit)
            try:
                await self._changes.apply_at_once(change, timeout_s)
            finally:
                self._subscription, self._failure, self._membership = None, None, None
                self._polls.stop()
                self._membership_scope.cancel()
                if membership is not None:
                    await membership.leave(reason)

    async def _commit_before_rebalance(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commits before a rebalance. A failure is ignored: the partitions have to be given up nevertheless."""
        if not offsets:
            return
        timeout_ms = min(self._config.default_api_timeout_ms, self._config.max_poll_interval_ms)
        try:
            await self._offsets.commit(offsets, timeout_ms)
        except (ClientError, KafkaError) as error:
            _log.warning("group %s: the commit before a rebalance failed: %s", self._context.group_id, error)
