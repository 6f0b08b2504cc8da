"""A member of a group: it consumes its assigned partitions from the committed offsets on, and commits.

The protocol that assigns partitions is in `group_classic` and `group_consumer`. A member does one thing at a time, so
that its part of the history is in order.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import attrs
import trio

from broker.client import ConnectionLost
from broker.coordinator.internal_topics import CONSUMER_OFFSETS
from broker.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from broker.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from broker.wire.errors import ErrorCode
from jepsen.values import Commit, CommittedRead, GroupPoll, Ownership, Polling
from jepsen.workloads.client import AMBIGUOUS, Client
from jepsen.workloads.connection import TIMEOUT_SECONDS, Connection
from jepsen.workloads.consumer import Corrupt, FetchRefused, fetch, records_of

TopicPartition: TypeAlias = tuple[str, int]

# The timeouts of the members in both protocols.
SESSION_MS: Final = 6_000
REBALANCE_MS: Final = 5_000
_COMMIT_VERSION: Final = 9
_FETCH_VERSION: Final = 9
_POLL_MS: Final = 800
_IDLE_SECONDS: Final = 0.8
_AUDITS_PER_SECOND: Final = 0.7
# Sometimes longer than a session timeout.
_STALL_SECONDS_MAX: Final = 10.0
# The broker does not coordinate the group, or not yet. Another one may, and the commit may have succeeded.
_STALE_COORDINATOR: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
# With these errors, the commit has certainly not happened.
_REFUSALS: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


@attrs.define(eq=False)
class Group:
    """A group that consumes all partitions of `topics`, which maps names to numbers of partitions.

    `index` is the group's partition of the offsets topic. `leads` returns True if a server, by its host, leads a
    partition according to the latest metadata. With `may_restart_generations`, members use both protocols: an empty
    group may change its protocol and count its generations from one again, so generations are not recorded. `reached`
    has the highest offsets that members know to be committed.
    """

    name: str
    topics: Mapping[str, int]
    topic_ids: Mapping[bytes, str]
    index: int
    leads: Callable[[str, str, int], bool]
    may_restart_generations: bool = False
    reached: dict[TopicPartition, int] = attrs.field(factory=dict)


class GroupMember(ABC):
    """A member of a group. `positions` maps each owned partition to the next offset, or None until that is known.

    A member reads from the leader with the highest epoch that it knows, also when it starts from committed offsets
    (KIP-320). Only that leader can say that there are no records at a position. `instance` makes it a static member
    (KIP-345). `commits` and `stalls` are the probabilities of a commit after a poll, and of a long pause before one.
    `is_over` is True after another member has taken its place.
    """

    def __init__(
        self, client: Client, group: Group, instance: str | None = None, *, commits: float = 0.3, stalls: float = 0.0
    ) -> None:
        self.client = client
        self.group = group
        self.instance = instance
        self.member_id = ""
        self.generation = -1  # the group's generation, or the member's epoch
        self.positions: dict[TopicPartition, int | None] = {}
        self.is_over = False
        self._commits = commits
        self._stalls = stalls
        self._committed: dict[TopicPartition, int] = {}
        self._coordinator = attrs.evolve(client)
        self._readers: dict[TopicPartition, Client] = {}
        self._leader_epochs: dict[TopicPartition, int] = {}
        self._turn = 0

    # The protocol

    @abstractmethod
    async def take_part(self) -> None:
        """Take the next step of the protocol, if one is due. Raises ConnectionLost."""

    @abstractmethod
    async def leave(self) -> None:
        """Revoke all partitions and leave the group, in one attempt. Raises ConnectionLost."""

    @abstractmethod
    def refused(self, code: ErrorCode) -> None:
        """Handle an error of the coordinator about this member."""

    @abstractmethod
    def fetch_identity(self) -> tuple[str | None, int]:
        """The member id and epoch to send with an OffsetFetch."""

    # Running

    async def run(self) -> None:
        """Take part in the protocol and consume, until cancelled or replaced."""
        try:
            while not self.is_over:
                try:
                    await self.take_part()
                    await self._consume()
                except ConnectionLost:
                    await self._coordinator.aclose()
                    await self.client.back_off()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        await self._coordinator.aclose()
        for reader in self._readers.values():
            await reader.aclose()

    async def ask(self, request: Any, version: int, timeout_seconds: float = TIMEOUT_SECONDS) -> tuple[Any, int]:
        """Ask the coordinator. Returns its response and the incarnation of the committed offsets. Raises
        ConnectionLost.
        """
        if not self._coordinator.is_connected:
            await self._coordinator.seek_coordinator(self.group.name)
        async with self._coordinator.connected() as connection:
            incarnation = self._incarnation(connection)
            response = await connection.call(request, version, timeout_seconds)
            if self._incarnation(connection) != incarnation:
                raise ConnectionLost(AMBIGUOUS)
            return response, incarnation

    async def handle_error(self, code: ErrorCode) -> None:
        """Handle an error of the coordinator."""
        if code in _STALE_COORDINATOR:
            await self._coordinator.aclose()
            await self.client.back_off()
        else:
            self.refused(code)

    @property
    def _known_generation(self) -> int:
        """The generation to record in the history; -1 if generations are not recorded."""
        return -1 if self.group.may_restart_generations else self.generation

    # Owned partitions

    def assigned(self, partitions: Iterable[TopicPartition], incarnation: int, asked_at: float) -> None:
        """Own these partitions from now on; those that are owned already move to the current generation."""
        own = tuple(sorted(partitions))
        self._record_change("assign", own, incarnation, asked_at)
        for partition in own:
            self.positions.setdefault(partition, None)

    def give_up(self, function: str, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Give up the given partitions, or all. `function` is `revoke` or `lose`."""
        own = tuple(sorted(self.positions if partitions is None else partitions))
        if own:
            self._record_change(function, own)
        for partition in own:
            del self.positions[partition]
            self._committed.pop(partition, None)

    def _record_change(
        self, function: str, partitions: tuple[TopicPartition, ...], incarnation: int = 0, at: float | None = None
    ) -> None:
        history, name = self.client.history, self.client.name
        own = Ownership(self.group.name, self.member_id, self._known_generation, partitions, self.instance or "")
        history.ok(history.invoke(name, function, own, at=at), None, incarnation=incarnation)

    # Consuming

    async def _consume(self) -> None:
        """Poll one partition of those whose position is known. Raises ConnectionLost."""
        unknown = tuple(sorted(partition for partition, position in self.positions.items() if position is None))
        if unknown:
            await self._find_positions(unknown)
            return
        if not self.positions:
            await trio.sleep(_IDLE_SECONDS)
            return
        if self.client.rng.random() < self._stalls:
            await trio.sleep(self.client.rng.uniform(0, _STALL_SECONDS_MAX))
        self._turn += 1
        await self._poll(sorted(self.positions)[self._turn % len(self.positions)])
        if self.client.rng.random() < self._commits:
            await self.commit()

    async def _poll(self, partition: TopicPartition) -> None:
        position = self.positions[partition]
        assert position is not None, "the coordinator is known"
        reader = self._readers.setdefault(partition, attrs.evolve(self.client))
        began = trio.current_time()
        try:
            if not reader.is_connected:
                await self._seek_leader(reader, partition)
            async with reader.connected() as connection:
                incarnation = self.client.incarnation(connection, *partition)
                epoch = self._leader_epochs[partition]
                data = await fetch(connection, Polling(*partition, position), wait_ms=_POLL_MS, leader_epoch=epoch)
                records = records_of(data, position)
        except FetchRefused as error:
            await self.client.back_off()
            if str(error) == ErrorCode.OFFSET_OUT_OF_RANGE.name and incarnation:
                self.positions[partition] = 0  # the log was truncated below the position
        except ConnectionLost:
            await self.client.back_off()
        except Corrupt as error:
            self.client.history.fail(self._polled(partition, began), str(error))
        else:
            if records and self.client.incarnation(connection, *partition) == incarnation:
                self.client.history.ok(self._polled(partition, began), records, incarnation=incarnation)
                self.positions[partition] = records[-1][0] + 1

    async def _seek_leader(self, reader: Client, partition: TopicPartition) -> None:
        """Connect `reader` to a leader that is not older than the latest known one. Raises ConnectionLost."""
        epoch = await reader.seek_leader(*partition)
        self._note_leader_epoch(partition, epoch)
        if epoch < self._leader_epochs[partition]:
            await reader.aclose()
            raise ConnectionLost("the leader has changed since")

    def _note_leader_epoch(self, partition: TopicPartition, epoch: int) -> None:
        self._leader_epochs[partition] = max(epoch, self._leader_epochs.get(partition, -1))

    def _polled(self, partition: TopicPartition, began: float) -> Any:
        poll = GroupPoll(self.group.name, self.member_id, *partition)
        return self.client.history.invoke(self.client.name, "poll-group", poll, at=began)

    # Offsets

    def _uncommitted_positions(self) -> dict[TopicPartition, int]:
        return {
            partition: position
            for partition, position in sorted(self.positions.items())
            if position is not None and position != self._committed.get(partition)
        }

    async def commit(self) -> None:
        """Commit the positions with one request. Raises ConnectionLost."""
        news = self._uncommitted_positions()
        if not news:
            return
        history = self.client.history
        offsets = tuple((topic, index, offset) for (topic, index), offset in news.items())
        commit = Commit(self.group.name, self.member_id, self._known_generation, offsets)
        operation = history.invoke(self.client.name, "commit", commit)
        try:
            response, incarnation = await self.ask(self._commit_request(commit), _COMMIT_VERSION)
        except ConnectionLost as error:
            history.info(operation, str(error))
            raise
        codes = [ErrorCode(each.error_code) for topic in response.topics for each in topic.partitions]
        if all(code is ErrorCode.NONE for code in codes):
            history.ok(operation, None, incarnation=incarnation)
            self._note_committed(news)
        elif all(code in _REFUSALS for code in codes):
            history.fail(operation, codes[0].name)
        else:
            history.info(operation, codes[0].name)
        for code in dict.fromkeys(codes):
            if code is not ErrorCode.NONE:
                await self.handle_error(code)

    def _commit_request(self, commit: Commit) -> OffsetCommitRequest:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for topic, index, offset in commit.offsets:
            its = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic))
            its.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=self._leader_epochs.get((topic, index), -1),
                )
            )
        return OffsetCommitRequest(
            group_id=commit.group,
            generation_id_or_member_epoch=self.generation,
            member_id=commit.member,
            group_instance_id=self.instance,
            topics=list(topics.values()),
        )

    async def _find_positions(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Set positions to the committed offsets, or to zero if none is committed. Raises ConnectionLost."""
        told = await self.fetch_committed(partitions)
        self.positions |= {partition: max(0, offset) for partition, offset in told.items()}

    async def fetch_committed(self, partitions: tuple[TopicPartition, ...]) -> Mapping[TopicPartition, int]:
        """Fetch the committed offsets: -1 if there is none, empty if the request is refused. Raises ConnectionLost."""
        history = self.client.history
        read = CommittedRead(self.group.name, self.member_id, partitions)
        operation = history.invoke(self.client.name, "fetch-committed", read)
        try:
            led = self._is_led()
            response, incarnation = await self.ask(self._fetch_request(partitions), _FETCH_VERSION)
            if not led or not self._is_led():
                # A deposed coordinator that does not know of its successor answers from stale state.
                raise ConnectionLost("the coordinator has moved")
        except ConnectionLost as error:
            history.info(operation, str(error))
            raise
        (group,) = response.groups
        codes = [group.error_code, *(each.error_code for topic in group.topics for each in topic.partitions)]
        code = next((ErrorCode(each) for each in codes if each), None)
        if code is not None:
            history.fail(operation, code.name)
            await self.handle_error(code)
            return {}
        told = {}
        for topic in group.topics:
            for each in topic.partitions:
                told[topic.name, each.partition_index] = each.committed_offset
                self._note_leader_epoch((topic.name, each.partition_index), each.committed_leader_epoch)
        history.ok(operation, tuple((*partition, told[partition]) for partition in partitions), incarnation=incarnation)
        self._note_committed({partition: told[partition] for partition in partitions if told[partition] >= 0})
        return told

    def _fetch_request(self, partitions: tuple[TopicPartition, ...]) -> OffsetFetchRequest:
        member_id, epoch = self.fetch_identity()
        topics: dict[str, OffsetFetchRequestTopics] = {}
        for topic, index in partitions:
            topics.setdefault(topic, OffsetFetchRequestTopics(name=topic)).partition_indexes.append(index)
        group = OffsetFetchRequestGroup(
            group_id=self.group.name, member_id=member_id, member_epoch=epoch, topics=list(topics.values())
        )
        return OffsetFetchRequest(groups=[group])

    def _note_committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._committed |= offsets
        for partition, offset in offsets.items():
            self.group.reached[partition] = max(offset, self.group.reached.get(partition, 0))

    def _incarnation(self, connection: Connection) -> int:
        return self.client.incarnation(connection, CONSUMER_OFFSETS, self.group.index)

    def _is_led(self) -> bool:
        """True if the asked broker coordinates the group according to the metadata, or if no broker was asked yet."""
        address = self._coordinator.address
        return address is None or self.group.leads(address[0], CONSUMER_OFFSETS, self.group.index)


class Auditor(GroupMember):
    """Fetches the group's committed offsets from time to time. It never joins the group."""

    async def run(self) -> None:
        """Fetch until cancelled."""
        partitions = tuple(
            (topic, index) for topic, count in sorted(self.group.topics.items()) for index in range(count)
        )
        while True:
            await self.client.pause(_AUDITS_PER_SECOND)
            try:
                await self.fetch_committed(partitions)
            except ConnectionLost:
                await self._coordinator.aclose()

    async def take_part(self) -> None:
        """Do nothing: an auditor does not join."""

    async def leave(self) -> None:
        """Do nothing: an auditor has nothing to leave."""

    def refused(self, code: ErrorCode) -> None:
        """Ignore the error; the next audit asks again."""

    def fetch_identity(self) -> tuple[str | None, int]:
        return None, -1
