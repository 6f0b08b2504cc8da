"""Drives a member of a classic group: asks its coordinator, waits for polls, and sends heartbeats (KIP-62)."""

import logging
from collections.abc import Sequence
from typing import Final

import trio

from broker.client.consumer.errors import CommitFailed, RebalanceInProgress
from broker.client.consumer.group.assignment_changes import AssignmentChange
from broker.client.consumer.group.assignors import Assignor
from broker.client.consumer.group.assignors.assignor import NO_GENERATION, TopicRacks
from broker.client.consumer.group.classic.membership import ClassicMembership, ClassicSettings, Next, State
from broker.client.consumer.group.classic.topics import ClassicTopics
from broker.client.consumer.group.context import MemberContext, run_together
from broker.client.consumer.group.identity import GroupMetadata
from broker.client.consumer.group.signal import Signal
from broker.client.consumer.group.subscribed_topics import SubscribedTopics
from broker.client.errors import KafkaError
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode

_log: Final = logging.getLogger(__name__)

# From these versions on a request can name a static member (KIP-345).
_STATIC_JOIN_SINCE: Final = 5
_STATIC_SYNC_SINCE: Final = 3
_STATIC_HEARTBEAT_SINCE: Final = 3
# Extra time for the coordinator to answer a join after the rebalance timeout (as in AbstractCoordinator.java).
_JOIN_SLACK_MS: Final = 5_000


class ClassicDriver:
    """See the module's docstring. `_changed` is notified with every change of the membership."""

    def __init__(self, context: MemberContext, subscription: SubscribedTopics, assignors: Sequence[Assignor]) -> None:
        config = context.config
        self._context = context
        self._topics = ClassicTopics(context, subscription)
        self._membership = ClassicMembership(
            ClassicSettings(
                group_id=context.group_id,
                instance_id=config.group_instance_id,
                rack=config.client_rack or None,
                session_timeout_ms=config.session_timeout_ms,
                rebalance_timeout_ms=config.max_poll_interval_ms,
                assignors=assignors,
            )
        )
        self._changed = Signal()
        self._failures = 0

    # For the group's offsets and the consumer

    @property
    def is_member(self) -> bool:
        return self._membership.generation != NO_GENERATION

    def identity(self) -> GroupMetadata:
        member = self._membership
        return GroupMetadata(member.settings.group_id, member.generation, member.member_id, member.settings.instance_id)

    def committing_as(self) -> GroupMetadata:
        """Returns the identity for commits. Until all members have rejoined, that is the generation that ends."""
        if self._membership.is_joined or (self.is_member and self._membership.state is State.JOINING):
            return self.identity()
        if self.is_member or self._membership.state is State.JOINING:
            raise RebalanceInProgress("the group is rebalancing: poll until that is over, and commit again")
        raise CommitFailed("this consumer is not a member of its group at present: poll to join it")

    def fetching_as(self) -> GroupMetadata:
        return GroupMetadata(self._context.group_id)

    def on_commit_refused(self, who: GroupMetadata, code: ErrorCode) -> bool:
        is_over = self._membership.on_commit_refused(who.generation_id, code)
        self._notify()
        return is_over

    def change_subscription(self, subscription: SubscribedTopics) -> None:
        self._topics.subscription = subscription
        self._check_topics()

    async def leave(self, reason: str) -> None:
        request = self._membership.leave_request(reason)
        self._notify()
        if request is not None:
            await self._context.coordinator.send_leave_request(request)

    # Tasks

    async def run(self) -> None:
        await run_together(self._rebalance, self._send_heartbeats, self._watch_topics, self._watch_polls)

    async def _rebalance(self) -> None:
        while True:
            while not self._membership.needs_rejoin:
                await self._changed.wait()
            await self._context.polls.wait_polled()
            await self._topics.resolve()
            if await self._prepare():
                await self._join()

    async def _send_heartbeats(self) -> None:
        """Sends heartbeats. The interval begins with the join, or with the last heartbeat."""
        while True:
            while not self._membership.is_joined:
                await self._changed.wait()
            generation = self._membership.generation
            await trio.sleep(self._context.config.heartbeat_interval_ms / 1000)
            failures = 0
            while self._membership.is_joined and self._membership.generation == generation:
                if await self._heartbeat():
                    break
                failures += 1
                await trio.sleep(self._context.cluster.backoff.pause_s(failures))

    async def _watch_topics(self) -> None:
        metadata = self._context.cluster.metadata
        while True:
            version = metadata.version
            self._check_topics()
            await self._context.cluster.wait_for_change(version)

    async def _watch_polls(self) -> None:
        await self._context.leave_without_polls(self.leave)

    # Steps

    async def _prepare(self) -> bool:
        """Has a poll commit and revoke partitions before the join. Returns False if the membership ended meanwhile."""
        member, context = self._membership, self._context
        owned = frozenset(context.state.assigned_partitions())
        if not owned:
            return True
        generation, prepared = member.generation, member.prepare(owned, self._topics.names)
        change = AssignmentChange(
            target=prepared.kept, is_lost=prepared.is_lost, commits=context.config.enable_auto_commit
        )
        return await context.changes.request(change) and generation == member.generation

    async def _join(self) -> None:
        """Sends one JoinGroup and one SyncGroup, and applies their outcome."""
        follows = await self._join_and_sync()
        if follows is Next.GO_ON:
            self._failures = 0
            return
        if follows is Next.FIND_COORDINATOR:
            self._context.coordinator.forget()
        self._failures += 1
        if follows in (Next.RETRY, Next.FIND_COORDINATOR) or self._failures > 1:
            await trio.sleep(self._context.cluster.backoff.pause_s(self._failures))

    async def _join_and_sync(self) -> Next:
        member, context = self._membership, self._context
        timeout_ms = max(context.config.request_timeout_ms, context.config.max_poll_interval_ms + _JOIN_SLACK_MS)
        joining = member.join_request(self._topics.names, context.state.assigned_partitions())
        self._notify()
        joined = await context.coordinator.ask(
            joining, lowest=self._since(_STATIC_JOIN_SINCE), timeout_ms=timeout_ms, purpose="rebalance"
        )
        if joined is None:
            member.on_join_lost()
            return Next.RETRY
        if (follows := member.on_join(joined)) is not Next.GO_ON:
            return self._checked(follows, joined.error_code)
        racks: TopicRacks = await self._topics.racks(member.group_topics) if member.is_leader else {}
        syncing = member.sync_request(racks)
        synced = await context.coordinator.ask(
            syncing, lowest=self._since(_STATIC_SYNC_SINCE), timeout_ms=timeout_ms, purpose="rebalance"
        )
        if synced is None:
            member.on_join_lost()
            return Next.RETRY
        follows, assigned = member.on_sync(synced)
        if follows is Next.GO_ON:
            await self._apply(assigned)
        return self._checked(follows, synced.error_code)

    async def _apply(self, assigned: frozenset[TopicPartition]) -> None:
        """Has a poll take over the assignment. The member sends heartbeats meanwhile."""
        member, context = self._membership, self._context
        self._notify()
        self._check_topics()
        if not self._topics.may_own(assigned):
            member.request_rejoin("received assignment does not match the current subscription")
            return
        revoked = frozenset(context.state.assigned_partitions()) - assigned
        if revoked:
            member.request_rejoin("need to revoke partitions and re-join")
        commits = bool(revoked) and context.config.enable_auto_commit
        await context.changes.request(AssignmentChange(target=assigned, completes=True, commits=commits))

    async def _heartbeat(self) -> bool:
        """Sends a heartbeat. Returns False if it has to be sent again after a back-off. Raises KafkaError."""
        request = self._membership.heartbeat_request()
        response = await self._context.coordinator.ask(request, lowest=self._since(_STATIC_HEARTBEAT_SINCE))
        if response is None:
            return False
        follows = self._checked(self._membership.on_heartbeat(request, response.error_code), response.error_code)
        if follows is Next.FIND_COORDINATOR:
            self._context.coordinator.forget()
        self._notify()
        return follows not in (Next.RETRY, Next.FIND_COORDINATOR)

    def _check_topics(self) -> None:
        """Rejoins if the member's topics have changed, or for the leader the topics of the group."""
        if self._topics.have_changed():
            self._membership.request_rejoin("subscription has changed")
        elif self._membership.is_leader and self._topics.have_changed_for_group():
            self._membership.request_rejoin("cached metadata has changed")
        self._changed.notify()

    def _notify(self) -> None:
        """Notifies of a change of the membership. Withdraws a pending assignment if its generation has ended."""
        if not self.is_member:
            self._context.changes.withdraw()
        self._changed.notify()

    def _since(self, version: int) -> int:
        return 0 if self._context.config.group_instance_id is None else version

    def _checked(self, follows: Next, code: int) -> Next:
        if follows is Next.FAIL:
            known = ErrorCode.of(code)
            raise KafkaError(known, f"group {self._context.group_id}")
        return follows
