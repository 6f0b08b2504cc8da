"""Drives a member of a group of the consumer protocol (KIP-848): heartbeats, and reconciliation with the target."""

import logging
from typing import Final

import trio

from broker.client.consumer.errors import CommitFailed, RebalanceInProgress
from broker.client.consumer.group.assignment_changes import AssignmentChange
from broker.client.consumer.group.consumer.membership import (
    ConsumerMembership,
    ConsumerSettings,
    Next,
    Partitions,
    State,
    Subscription,
)
from broker.client.consumer.group.context import MemberContext, run_together
from broker.client.consumer.group.heartbeat_times import HeartbeatTimes
from broker.client.consumer.group.identity import GroupMetadata
from broker.client.consumer.group.signal import Signal
from broker.client.consumer.group.subscribed_topics import SubscribedTopics
from broker.client.consumer.group.topic_names import TopicNames
from broker.client.errors import KafkaError, UnsupportedByBroker
from broker.client.types import TopicPartition
from broker.printable import printable
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from broker.wire.errors import ErrorCode
from broker.wire.uuids import encode_uuid, new_uuid

_log: Final = logging.getLogger(__name__)

REGEX_SINCE: Final = 1


class ConsumerDriver:
    """See the module's docstring. `_changed` is notified with every change of the membership.

    With `has_regexes`, the coordinator evaluates patterns that are given as text.
    """

    def __init__(self, context: MemberContext, subscription: SubscribedTopics, *, has_regexes: bool) -> None:
        config = context.config
        self._context = context
        self._subscription = subscription
        self._has_regexes = has_regexes
        self._learned: SubscribedTopics | None = None
        self._names = TopicNames(context.cluster)
        self._membership = ConsumerMembership(
            ConsumerSettings(
                group_id=context.group_id,
                instance_id=config.group_instance_id,
                rack=config.client_rack or None,
                rebalance_timeout_ms=config.max_poll_interval_ms,
                assignor=config.group_remote_assignor,
            ),
            encode_uuid(new_uuid(context.cluster.environment.rng.randbytes)),
            Subscription(),
        )
        self._changed = Signal()
        self._heartbeats = HeartbeatTimes(context.cluster.backoff, self._changed)

    # For the group's offsets and the consumer

    @property
    def is_member(self) -> bool:
        return self._membership.is_member

    def identity(self) -> GroupMetadata:
        member, instance_id = self._membership, self._context.config.group_instance_id
        if not member.is_member:
            return GroupMetadata(self._context.group_id, group_instance_id=instance_id)
        return GroupMetadata(self._context.group_id, member.epoch, member.member_id, instance_id)

    def committing_as(self) -> GroupMetadata:
        if self.is_member:
            return self.identity()
        if self._membership.state is State.JOINING:
            raise RebalanceInProgress("this consumer is joining its group: poll, and commit again")
        raise CommitFailed("this consumer is not a member of its group at present: poll to join it")

    def fetching_as(self) -> GroupMetadata:
        return self.identity()

    def on_commit_refused(self, who: GroupMetadata, code: ErrorCode) -> bool:
        """Makes a heartbeat due at once, whose response tells whether the member was fenced."""
        self._heartbeats.hurry()
        self._notify()
        return code != ErrorCode.REBALANCE_IN_PROGRESS

    def change_subscription(self, subscription: SubscribedTopics) -> None:
        self._subscription = subscription
        self._resolve_topics()
        self._context.cluster.request_refresh()

    async def leave(self, reason: str) -> None:
        request = self._membership.leave_request()
        self._notify()
        if request is not None:
            await self._context.coordinator.send_leave_request(request)

    # Tasks

    async def run(self) -> None:
        await self._learn_topics()
        await run_together(self._send_heartbeats, self._reconcile, self._watch_topics, self._watch_polls)

    async def _send_heartbeats(self) -> None:
        member = self._membership
        while True:
            await self._heartbeats.wait_due(
                is_outside=lambda: member.state is State.UNJOINED, is_urgent=lambda: member.is_heartbeat_urgent
            )
            await self._heartbeat()

    async def _reconcile(self) -> None:
        """Releases lost partitions, joins again, and applies the target assignment."""
        member, context = self._membership, self._context
        while True:
            if member.state is State.UNJOINED:
                await context.polls.wait_polled()
                # It must own nothing when it joins: other members may have committed offsets after its positions.
                if await context.lose_partitions():
                    member.join()
                    self._notify()
            elif member.state is State.RECONCILING:
                if not await self._follow_target():
                    await trio.sleep(context.cluster.backoff.pause_s(1))
            else:
                await self._changed.wait()

    async def _watch_topics(self) -> None:
        """Evaluates the pattern at every change of the metadata, unless the coordinator evaluates it."""
        metadata = self._context.cluster.metadata
        while True:
            if self._learned is not self._subscription:
                await self._learn_topics()
            version = metadata.version
            self._resolve_topics()
            await self._context.cluster.wait_for_change(version)

    async def _watch_polls(self) -> None:
        await self._context.leave_without_polls(self.leave)

    # Steps

    async def _heartbeat(self) -> None:
        """Sends a heartbeat and handles its response. Raises KafkaError, UnsupportedByBroker."""
        member, context = self._membership, self._context
        request = member.heartbeat_request()
        lowest = REGEX_SINCE if request.subscribed_topic_regex else 0
        response: ConsumerGroupHeartbeatResponse | None = await context.coordinator.ask(request, lowest=lowest)
        if response is None:
            member.on_heartbeat_lost()
            self._heartbeats.failed()
            return
        follows = member.on_heartbeat(request, response)
        if follows is Next.FAIL:
            raise self._failure(response)
        if follows is Next.FIND_COORDINATOR:
            context.coordinator.forget()
        if follows in (Next.RETRY, Next.FIND_COORDINATOR):
            self._heartbeats.failed()
        else:
            self._heartbeats.answered(response.heartbeat_interval_ms)
        self._notify()

    async def _follow_target(self) -> bool:
        """Has a poll revoke and assign; False if nothing can be done before more topics' names are known."""
        member, target = self._membership, self._membership.target
        assert target is not None, "there is a target to reconcile with"
        named = await self._names.resolve(target)
        reachable: Partitions = frozenset(each for each in target if each[0] in named)
        if member.state is not State.RECONCILING or member.target != target:
            return True
        if reachable == member.owned:
            return False
        partitions = frozenset(TopicPartition(named[topic_id], index) for topic_id, index in reachable)
        change = AssignmentChange(target=partitions, completes=True, commits=self._context.config.enable_auto_commit)
        if await self._context.changes.request(change) and member.is_member:
            member.reconciled(reachable)
            self._notify()
        return True

    async def _learn_topics(self) -> None:
        """Follows the topics of a new subscription."""
        self._learned = self._subscription
        if self._subscription.pattern is None:
            self._context.cluster.follow_only(self._subscription.names)
            await self._context.refresh(self._subscription.names)
        elif self._regex is None:
            self._context.cluster.follow_all()
            await self._context.refresh(None)
        self._resolve_topics()

    def _resolve_topics(self) -> None:
        if self._regex is not None:
            subscription = Subscription(regex=self._regex)
        else:
            exclude_internal = self._context.config.exclude_internal_topics
            names = self._subscription.resolve(self._context.cluster.metadata, exclude_internal=exclude_internal)
            subscription = Subscription(topics=tuple(sorted(names)))
        if subscription != self._membership.subscription:
            self._membership.subscription = subscription
            self._changed.notify()

    @property
    def _regex(self) -> str | None:
        """The pattern, if the coordinator evaluates it."""
        return self._subscription.regex if self._has_regexes else None

    def _notify(self) -> None:
        """Notifies of a change of the membership. Withdraws a pending assignment if the membership has ended."""
        if self._membership.state is State.UNJOINED:
            self._context.changes.withdraw()
        self._changed.notify()

    def _failure(self, response: ConsumerGroupHeartbeatResponse) -> Exception:
        code = response.error_code
        known = ErrorCode.of(code)
        if known is ErrorCode.UNSUPPORTED_VERSION:
            return UnsupportedByBroker("the cluster does not have the consumer protocol: set group_protocol=classic")
        return KafkaError(known, printable(response.error_message or "") or f"group {self._context.group_id}")
