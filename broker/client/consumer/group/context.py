"""The dependencies of a consumer's membership, in groups of both protocols."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Protocol

import attrs
import trio

from broker.client.cluster import Cluster
from broker.client.consumer.config import ConsumerConfig
from broker.client.consumer.group.assignment_changes import AssignmentChange, AssignmentChanges, SubscriptionState
from broker.client.consumer.group.coordinator_trouble import CoordinatorTrouble
from broker.client.consumer.group.identity import GroupMetadata
from broker.client.consumer.group.offsets import Committer
from broker.client.consumer.group.polls import PollTimer
from broker.client.consumer.group.subscribed_topics import SubscribedTopics
from broker.client.errors import (
    ClientError,
    ConnectionLost,
    KafkaError,
    UnsupportedByBroker,
    is_retriable,
    is_stale_coordinator,
)
from broker.client.find_coordinators import GROUP
from broker.client.links import Purpose

_log: Final = logging.getLogger(__name__)
_STALE_REASON: Final = "consumer poll timeout has expired."


@attrs.frozen
class GroupCoordinator:
    """Sends the requests of a member to the coordinator of its group."""

    cluster: Cluster
    group_id: str
    trouble: CoordinatorTrouble

    async def ask(
        self, request: Any, *, lowest: int = 0, timeout_ms: float | None = None, purpose: Purpose = "coordinator"
    ) -> Any | None:
        """The coordinator's response; None where there was none for now, so that the caller asks again later.

        Raises KafkaError, UnsupportedByBroker.
        """
        try:
            broker = await self.cluster.coordinator(self.group_id, GROUP, purpose)
            response = await broker.call(request, lowest=lowest, timeout_ms=timeout_ms)
        except ConnectionLost:
            self.forget()
            return None
        except KafkaError as error:
            if not (is_retriable(error.code) or is_stale_coordinator(error.code)):
                raise
            self.trouble.note_failure(error, trio.current_time())
            return None
        self.trouble.note_response(response, trio.current_time())
        return response

    def forget(self) -> None:
        """Looks the coordinator up again before the next request."""
        self.cluster.forget_coordinator(self.group_id, GROUP)

    async def send_leave_request(self, request: Any, *, lowest: int = 0) -> None:
        """Sends the request by which this member leaves. If it fails, the member's session times out."""
        with trio.move_on_after(self.cluster.config.request_timeout_ms / 1000):
            with suppress(KafkaError, UnsupportedByBroker):
                await self.ask(request, lowest=lowest)


def warn_of_expired_polls(group_id: str) -> None:
    """Logs that a member leaves because `max.poll.interval.ms` has passed without a poll."""
    _log.warning(
        "group %s: no poll within max.poll.interval.ms, so this member leaves until the next one; "
        "raise it, or return fewer records per poll",
        group_id,
    )


@attrs.frozen
class MemberContext:
    """See the module's docstring. `coordinator` is that of the group of `config`."""

    coordinator: GroupCoordinator
    config: ConsumerConfig
    state: SubscriptionState
    changes: AssignmentChanges
    polls: PollTimer

    @property
    def cluster(self) -> Cluster:
        return self.coordinator.cluster

    @property
    def group_id(self) -> str:
        return self.coordinator.group_id

    async def refresh(self, topics: Iterable[str] | None) -> None:
        """Asks for these topics' metadata (None: all). Where that fails, the cluster asks again in the background."""
        try:
            await self.cluster.refresh(topics, may_create=self.config.allow_auto_create_topics)
        except (ConnectionLost, KafkaError, UnsupportedByBroker):
            self.cluster.request_refresh()

    async def lose_partitions(self) -> bool:
        """Makes the next poll give up all partitions, without a commit; False if that was withdrawn before a poll."""
        if not self.state.assigned_partitions():
            return True
        return await self.changes.request(AssignmentChange(is_lost=True))

    async def leave_without_polls(self, leave: Callable[[str], Awaitable[None]]) -> None:
        """Calls `leave` with the reason whenever `max.poll.interval.ms` passes without a poll; runs until cancelled."""
        while True:
            await self.polls.wait_expired()
            warn_of_expired_polls(self.group_id)
            await leave(_STALE_REASON)
            await self.polls.wait_polled()


class Membership(Committer, Protocol):
    """A member of a group by either protocol, driven by a task of its own."""

    async def run(self) -> None:
        """Stays in the group until cancelled. Raises ClientError, KafkaError when it cannot."""

    def change_subscription(self, subscription: SubscribedTopics) -> None: ...

    def identity(self) -> GroupMetadata:
        """This member's place in the group, as far as it has one."""

    @property
    def is_member(self) -> bool:
        """False if what is owned is lost: then nothing can be committed, and on_lost is called."""

    async def leave(self, reason: str) -> None:
        """Leaves the group, if it can be reached within `request.timeout.ms`."""


async def run_together(*tasks: Callable[[], Awaitable[None]]) -> None:
    """Runs the tasks until one of them fails, and raises its error as it is, not in a group."""
    failures: list[ClientError | KafkaError] = []
    async with trio.open_nursery() as nursery:

        async def guarded(task: Callable[[], Awaitable[None]]) -> None:
            try:
                await task()
            except (ClientError, KafkaError) as failure:
                failures.append(failure)
                nursery.cancel_scope.cancel()

        for task in tasks:
            nursery.start_soon(guarded, task)
    if failures:
        raise failures[0]
