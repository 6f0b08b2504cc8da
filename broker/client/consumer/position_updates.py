"""Gives assigned partitions a valid position: committed offsets, resets, and validation by new leaders (KIP-320)."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from math import inf
from typing import TypeAlias

import trio

from broker.client.cluster import Cluster
from broker.client.consumer.errors import NoOffsetForPartition
from broker.client.consumer.offset_reset import LATEST, OffsetReset
from broker.client.consumer.offsets import EpochEnd, ListedOffset, OffsetLookups
from broker.client.consumer.positions import AssignedPartition, Position, PositionSnapshot, PositionState
from broker.client.consumer.subscription import SubscriptionState
from broker.client.errors import (
    ClientError,
    ConnectionLost,
    KafkaError,
    UnsupportedByBroker,
    is_retriable,
    is_stale_metadata,
)
from broker.client.types import OffsetAndMetadata, TopicPartition

Committed: TypeAlias = Callable[
    [Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, OffsetAndMetadata | None]]
]


class PositionUpdates:
    """Looks up what the partitions need, each broker's part in a task of its own.

    `committed` reads the group's offsets, None without a group. `changed` is called after every change.
    """

    def __init__(
        self,
        cluster: Cluster,
        subscription: SubscriptionState,
        lookups: OffsetLookups,
        committed: Committed | None,
        changed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._lookups = lookups
        self._committed = committed
        self._changed = changed
        self._in_flight: dict[AssignedPartition, None] = {}
        self._wanted = trio.Event()

    def notify(self) -> None:
        """Looks at all partitions again."""
        self._wanted.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                self._wanted = trio.Event()
                self._start_lookups(nursery)
                now = trio.current_time()
                next_attempt = min((each.next_attempt(now) for each in self._subscription.partitions), default=inf)
                with trio.move_on_at(next_attempt):
                    await self._wanted.wait()

    def _start_lookups(self, nursery: trio.Nursery) -> None:
        if initial := self._due(PositionState.INITIALIZING):
            if self._committed is None:
                self._reset_without_offset(initial)
                self._changed()
            else:
                self._start(nursery, self._initialize, self._committed, initial)
        for node_id, partitions in self._due_by_leader(PositionState.AWAIT_RESET).items():
            self._start(nursery, self._reset, node_id, partitions)
        for node_id, partitions in self._due_by_leader(PositionState.AWAIT_VALIDATION).items():
            self._start(nursery, self._validate, node_id, partitions)

    def _due(self, state: PositionState) -> list[AssignedPartition]:
        now = trio.current_time()
        return [
            assigned
            for assigned in self._subscription.partitions
            if assigned.is_due(state, now) and assigned not in self._in_flight
        ]

    def _due_by_leader(self, state: PositionState) -> dict[int, list[AssignedPartition]]:
        by_node: dict[int, list[AssignedPartition]] = {}
        for assigned in self._due(state):
            if assigned.leader is not None:
                by_node.setdefault(assigned.leader.node_id, []).append(assigned)
        return by_node

    def _start(
        self,
        nursery: trio.Nursery,
        lookup: Callable[..., Awaitable[None]],
        of: object,
        partitions: Collection[AssignedPartition],
    ) -> None:
        """Runs a lookup; while it runs, there is no other one of these partitions."""

        async def run() -> None:
            try:
                await lookup(of, partitions)
            except (ConnectionLost, KafkaError) as failure:
                self._fail(partitions, failure)
                self._cluster.request_refresh()
            except ClientError as failure:
                self._give_up(partitions, failure)
            finally:
                for assigned in partitions:
                    self._in_flight.pop(assigned, None)
                self._wanted.set()
                self._changed()

        self._in_flight.update(dict.fromkeys(partitions))
        nursery.start_soon(run)

    # Committed offsets

    async def _initialize(self, committed: Committed, partitions: Collection[AssignedPartition]) -> None:
        generations = {assigned: assigned.generation for assigned in partitions}
        offsets = await committed([assigned.partition for assigned in partitions])
        without = []
        for assigned, generation in generations.items():
            if assigned.generation != generation or assigned.state is not PositionState.INITIALIZING:
                continue  # the user has sought elsewhere, or it is not assigned anymore
            offset = offsets.get(assigned.partition)
            if offset is None:
                without.append(assigned)
            else:
                assigned.seek(Position(offset.offset, offset.leader_epoch))
        self._reset_without_offset(without)

    def _reset_without_offset(self, partitions: Collection[AssignedPartition]) -> None:
        for assigned in partitions:
            policy = self._subscription.policy_of(assigned)
            if policy is None:
                assigned.error = NoOffsetForPartition(assigned.partition)
            else:
                assigned.request_reset(policy)

    # Resets

    async def _reset(self, node_id: int, partitions: Collection[AssignedPartition]) -> None:
        now_ms = self._cluster.environment.now_ms()
        resets = {assigned: assigned.reset for assigned in partitions if assigned.reset is not None}
        answers = await self._lookups.list_on(
            node_id, {assigned.partition: reset.timestamp_at(now_ms) for assigned, reset in resets.items()}
        )
        too_new = [
            assigned
            for assigned in resets
            if isinstance(answer := answers.get(assigned.partition), ListedOffset) and answer.offset < 0
        ]
        if too_new:  # no record is as new as the duration asks for: begin with the next one
            timestamps = {assigned.partition: LATEST.timestamp for assigned in too_new}
            answers |= await self._lookups.list_on(node_id, timestamps)
        for assigned, reset in resets.items():
            self._take_reset(assigned, reset, answers.get(assigned.partition))

    def _take_reset(
        self, assigned: AssignedPartition, reset: OffsetReset, answer: ListedOffset | KafkaError | None
    ) -> None:
        if isinstance(answer, ListedOffset) and answer.offset >= 0:
            assigned.complete_reset(reset, answer.offset)
        elif assigned.state is PositionState.AWAIT_RESET:
            self._take_failure(assigned, answer)

    # Validation

    async def _validate(self, node_id: int, partitions: Collection[AssignedPartition]) -> None:
        snapshots = {assigned: assigned.snapshot() for assigned in partitions}
        try:
            answers = await self._lookups.epoch_ends_on(
                node_id, {assigned.partition: snapshot for assigned, snapshot in snapshots.items()}
            )
        except UnsupportedByBroker:
            for assigned in partitions:
                assigned.skip_validation()
            return
        for assigned, snapshot in snapshots.items():
            self._take_epoch_end(assigned, snapshot, answers.get(assigned.partition))

    def _take_epoch_end(
        self, assigned: AssignedPartition, snapshot: PositionSnapshot, answer: EpochEnd | KafkaError | None
    ) -> None:
        if isinstance(answer, EpochEnd):
            policy = self._subscription.policy_of(assigned)
            assigned.error = assigned.validated(snapshot, answer.epoch, answer.end_offset, policy) or assigned.error
        elif assigned.is_current(snapshot):
            self._take_failure(assigned, answer)

    # Failures

    def _take_failure(self, assigned: AssignedPartition, answer: object) -> None:
        """Retries a lookup after the back-off if it got no response or a retriable error."""
        if isinstance(answer, KafkaError) and not is_retriable(answer.code):
            assigned.error = answer
            return
        if not isinstance(answer, KafkaError) or is_stale_metadata(answer.code):
            self._cluster.request_refresh()
        self._pause([assigned])

    def _fail(self, partitions: Collection[AssignedPartition], failure: ConnectionLost | KafkaError) -> None:
        if isinstance(failure, KafkaError) and not is_retriable(failure.code):
            self._give_up(partitions, failure)
        else:
            self._pause(partitions)

    def _give_up(self, partitions: Collection[AssignedPartition], failure: Exception) -> None:
        for assigned in partitions:
            if assigned.is_assigned and not assigned.is_fetching:
                assigned.error = failure

    def _pause(self, partitions: Collection[AssignedPartition]) -> None:
        until = trio.current_time() + self._cluster.backoff.pause_s(1)
        for assigned in partitions:
            assigned.retry_at = until
