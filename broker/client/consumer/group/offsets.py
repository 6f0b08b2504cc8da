"""The offsets of a group: committed one request after the other, in the order of the calls, and fetched."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, Protocol, TypeAlias, TypeVar

import attrs
import trio

from broker.client.cluster import Cluster
from broker.client.consumer.errors import CommitFailed, RebalanceInProgress
from broker.client.consumer.group.identity import NO_EPOCH, GroupMetadata
from broker.client.consumer.group.offset_requests import (
    STATIC_COMMITS_SINCE,
    VERSION_BY_NAME_MAX,
    commit_failure,
    commit_request,
    fetch_request,
    fetched_offsets,
)
from broker.client.errors import ClientError, KafkaError, TimedOut, is_stale_coordinator
from broker.client.find_coordinators import GROUP
from broker.client.types import OffsetAndMetadata, TopicPartition
from broker.wire.api.offset_fetch import OffsetFetchRequest
from broker.wire.errors import ErrorCode

_log: Final = logging.getLogger(__name__)

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback: TypeAlias = Callable[[Offsets, Exception | None], None]
# Commits that wait for the coordinator; an application that calls commit_soon for every record would else fill the
# memory while the coordinator is away.
COMMITS_WAITING_MAX: Final = 1_000
_NOT_ACCEPTED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
# The coordinator and the member do not agree on the epoch yet; heartbeats make them agree.
_EPOCH_OF_COMMIT_IS_BEHIND: Final = frozenset({ErrorCode.STALE_MEMBER_EPOCH})
_EPOCH_OF_FETCH_IS_BEHIND: Final = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})

# Extra time for a commit after its deadline: it ends by itself unless earlier commits delay it.
_SLACK_S: Final = 0.5

_T = TypeVar("_T")


class Committer(Protocol):
    """The membership on whose behalf offsets are committed."""

    def committing_as(self) -> GroupMetadata:
        """The identity for commits now. Raises RebalanceInProgress, CommitFailed."""

    def fetching_as(self) -> GroupMetadata:
        """The identity for fetches of committed offsets, which only members of the consumer protocol send."""

    def on_commit_refused(self, who: GroupMetadata, code: ErrorCode) -> bool:
        """The coordinator does not accept commits of `who`: true if that membership is over, false if it rebalances."""


@attrs.define(eq=False)
class _Commit:
    offsets: Offsets
    deadline: float
    callback: CommitCallback | None = None
    is_automatic: bool = False
    ended: trio.Event = attrs.field(factory=trio.Event)
    error: Exception | None = None


class GroupOffsets:
    """See the module's docstring. Commits move only while `run` runs.

    A commit is retried until its deadline, and later ones wait for it: a retry never overwrites a newer offset.
    """

    def __init__(self, cluster: Cluster, group_id: str, committer: Committer, timeout_ms: float) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._committer = committer
        self._timeout_ms = timeout_ms
        self._waiting: deque[_Commit] = deque()
        self._arrived = trio.Event()

    async def run(self) -> None:
        while True:
            while self._waiting:
                await self._carry_out(self._waiting[0])
                self._waiting.popleft()
            self._arrived = trio.Event()
            await self._arrived.wait()

    async def commit(self, offsets: Offsets, timeout_ms: float | None = None) -> None:
        """Returns when the offsets are committed, and so is everything before them.

        Raises CommitFailed, RebalanceInProgress, KafkaError, TimedOut.
        """
        commit = self._add(offsets, timeout_ms)
        try:
            with trio.move_on_at(commit.deadline + _SLACK_S):
                await commit.ended.wait()
        finally:
            if commit in self._waiting and commit is not self._waiting[0]:
                self._waiting.remove(commit)
        if not commit.ended.is_set():
            raise TimedOut("the commits before this one have not ended in time")
        if commit.error is not None:
            raise commit.error

    def commit_soon(self, offsets: Offsets, callback: CommitCallback | None = None) -> None:
        """Has the offsets committed in the background. Raises ClientError if too many commits wait already."""
        if len(self._waiting) >= COMMITS_WAITING_MAX:
            raise ClientError(f"{COMMITS_WAITING_MAX} commits wait for the coordinator: await commit() now and then")
        self._add(offsets, None).callback = callback

    def commit_automatically(self, offsets: Offsets) -> None:
        """Commits in the background unless an automatic commit waits already, which then takes the newer offsets."""
        waiting = self._waiting[-1] if len(self._waiting) > 1 else None
        if waiting is not None and waiting.is_automatic:
            waiting.offsets = offsets
        else:
            self._add(offsets, None).is_automatic = True

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets, None where there is none. Raises KafkaError, TimedOut."""
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        return await self._retried(lambda: self._fetch_once(partitions), _EPOCH_OF_FETCH_IS_BEHIND, timeout_ms)

    def _add(self, offsets: Offsets, timeout_ms: float | None) -> _Commit:
        """Raises ValueError for a negative offset."""
        if any(offset.offset < 0 for offset in offsets.values()):
            raise ValueError("a committed offset is that of the next record to read, and not negative")
        timeout_s = (self._timeout_ms if timeout_ms is None else timeout_ms) / 1000
        commit = _Commit(dict(offsets), trio.current_time() + timeout_s)
        self._waiting.append(commit)
        self._arrived.set()
        return commit

    async def _carry_out(self, commit: _Commit) -> None:
        try:
            left_ms = max(0.0, commit.deadline - trio.current_time()) * 1000
            await self._retried(lambda: self._commit_once(commit.offsets), _EPOCH_OF_COMMIT_IS_BEHIND, left_ms)
        except (ClientError, KafkaError) as error:
            commit.error = error
            if commit.is_automatic:
                _log.log(
                    logging.DEBUG if isinstance(error, RebalanceInProgress) else logging.WARNING,
                    "group %s: auto commit failed: %s",
                    self._group_id,
                    error,
                )
        finally:
            commit.ended.set()
        if commit.callback is not None:
            try:
                commit.callback(commit.offsets, commit.error)
            except Exception:  # noqa: BLE001 - an error of the application's callback must not end the client's tasks
                _log.exception("group %s: the callback of a commit failed", self._group_id)

    async def _retried(
        self, attempt: Callable[[], Awaitable[_T]], behind: Collection[ErrorCode], timeout_ms: float
    ) -> _T:
        async def until_epochs_agree() -> _T:
            failures = 0
            while True:
                try:
                    return await attempt()
                except KafkaError as error:
                    if is_stale_coordinator(error.code) or error.code == ErrorCode.REQUEST_TIMED_OUT:
                        self._cluster.forget_coordinator(self._group_id, GROUP)
                    if error.code not in behind:
                        raise
                failures += 1
                await trio.sleep(self._cluster.backoff.pause_s(failures))

        return await self._cluster.retried(until_epochs_agree, timeout_ms=timeout_ms)

    async def _commit_once(self, offsets: Offsets) -> None:
        if not offsets:
            return
        who = self._committer.committing_as()
        broker = await self._cluster.coordinator(self._group_id, GROUP)
        lowest = 0 if who.group_instance_id is None else STATIC_COMMITS_SINCE
        response = await broker.call(commit_request(who, offsets), highest=VERSION_BY_NAME_MAX, lowest=lowest)
        error = commit_failure(response)
        if error is None:
            return
        if error.code in _NOT_ACCEPTED and who.generation_id != NO_EPOCH:
            if not self._committer.on_commit_refused(who, error.code):
                raise RebalanceInProgress(
                    "the group is rebalancing: poll until that is over, and commit again"
                ) from error
            raise CommitFailed(
                f"the group has removed this member ({error.code.name}), and other members go on from the offsets that "
                "were committed before: poll more often, or raise max.poll.interval.ms"
            ) from error
        raise error

    async def _fetch_once(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        broker = await self._cluster.coordinator(self._group_id, GROUP)
        version = broker.version_of(OffsetFetchRequest, highest=VERSION_BY_NAME_MAX)
        who = self._committer.fetching_as()
        response = await broker.call(fetch_request(who, partitions, version), version=version)
        return fetched_offsets(response, partitions, version)
