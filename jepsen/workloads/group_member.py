"""A member of a group: it consumes what it is assigned from where the group has committed, and commits.

How it comes to what it is assigned is its protocol's: see `group_classic` and `group_consumer`. It does one thing after
the other, so that its part of the history is in order.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import attrs
import trio

from broker.coordinator.internal_topics import CONSUMER_OFFSETS
from broker.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from broker.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from broker.wire.errors import ErrorCode
from jepsen.values import Commit, CommittedRead, GroupPoll, Ownership, Polling
from jepsen.workloads.client import AMBIGUOUS, Client
from jepsen.workloads.connection import TIMEOUT_SECONDS, Connection, ConnectionLost
from jepsen.workloads.consumer import Corrupt, FetchRefused, fetch, records_of

TopicPartition: TypeAlias = tuple[str, int]

# What the members of groups of either protocol promise.
SESSION_MS: Final = 6_000
REBALANCE_MS: Final = 5_000
_COMMIT_VERSION: Final = 9
_FETCH_VERSION: Final = 9
_POLL_MS: Final = 800
_IDLE_SECONDS: Final = 0.8
_AUDITS_PER_SECOND: Final = 0.7
# Longer than a session lasts, now and then.
_STALL_SECONDS_MAX: Final = 10.0
# Of a coordinator that is none, or not yet: another broker may be by now, and a commit may have been made.
_ELSEWHERE: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
# These say that nothing was committed.
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
    """A group that consumes all partitions of `topics`, which are told by name with how many they have.

    `index` is its partition of the topic with the offsets; `leads` tells whether a server, by its host, leads a
    partition as far as anybody knows. `may_begin_anew`: a group that is empty does, under the other protocol, where
    members speak both, and counts its generations from one again: they tell nothing. `reached` is how far its members
    know to be committed.
    """

    name: str
    topics: Mapping[str, int]
    topic_ids: Mapping[bytes, str]
    index: int
    leads: Callable[[str, str, int], bool]
    may_begin_anew: bool = False
    reached: dict[TopicPartition, int] = attrs.field(factory=dict)


class GroupMember(ABC):
    """`positions` has each partition that it owns, and None until it is known where to begin.

    It reads from the leader of the latest epoch that it, or who committed before it, has heard of (KIP-320): only of
    that one does it believe that there is nothing at its position.
    `instance` makes it a static member (KIP-345). `commits` and `stalls` are the chances that it commits after a poll,
    and that it comes to its senses only much later. `is_over`: another one has taken its place.
    """

    def __init__(
        self, client: Client, group: Group, instance: str | None = None, *, commits: float = 0.3, stalls: float = 0.0
    ) -> None:
        self.client = client
        self.group = group
        self.instance = instance
        self.member_id = ""
        self.generation = -1  # the group's, or its own epoch
        self.positions: dict[TopicPartition, int | None] = {}
        self.is_over = False
        self._commits = commits
        self._stalls = stalls
        self._committed: dict[TopicPartition, int] = {}
        self._coordinator = attrs.evolve(client)
        self._readers: dict[TopicPartition, Client] = {}
        self._leader_epochs: dict[TopicPartition, int] = {}
        self._turn = 0

    # Its protocol

    @abstractmethod
    async def take_part(self) -> None:
        """Do now what the group asks of its members, if anything. Raises ConnectionLost."""

    @abstractmethod
    async def leave(self) -> None:
        """Give everything up, and say so to the coordinator, once. Raises ConnectionLost."""

    @abstractmethod
    def refused(self, code: ErrorCode) -> None:
        """The coordinator does not take it for a member as it is."""

    @abstractmethod
    def fetch_identity(self) -> tuple[str | None, int]:
        """The member id and epoch to ask for offsets with."""

    # What it does

    async def run(self) -> None:
        """Take part and consume, until cancelled or over."""
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
        """The coordinator's answer, and the life of the offsets that it is of. Raises ConnectionLost."""
        if not self._coordinator.is_connected:
            await self._coordinator.seek_coordinator(self.group.name)
        async with self._coordinator.connected() as connection:
            life = self._life(connection)
            response = await connection.call(request, version, timeout_seconds)
            if self._life(connection) != life:
                raise ConnectionLost(AMBIGUOUS)
            return response, life

    async def heed(self, code: ErrorCode) -> None:
        """Be told of an error."""
        if code in _ELSEWHERE:
            await self._coordinator.aclose()
            await self.client.back_off()
        else:
            self.refused(code)

    @property
    def _told_generation(self) -> int:
        """For the history; -1 where it tells nothing."""
        return -1 if self.group.may_begin_anew else self.generation

    # What it owns

    def assigned(self, partitions: Iterable[TopicPartition], life: int, asked_at: float) -> None:
        """These are its own from now on, or in this generation as in the last."""
        own = tuple(sorted(partitions))
        self._told("assign", own, life, asked_at)
        for partition in own:
            self.positions.setdefault(partition, None)

    def give_up(self, function: str, partitions: Iterable[TopicPartition] | None = None) -> None:
        """These are its own no more, or nothing is; `function` is `revoke` or `lose`."""
        own = tuple(sorted(self.positions if partitions is None else partitions))
        if own:
            self._told(function, own)
        for partition in own:
            del self.positions[partition]
            self._committed.pop(partition, None)

    def _told(
        self, function: str, partitions: tuple[TopicPartition, ...], life: int = 0, at: float | None = None
    ) -> None:
        history, name = self.client.history, self.client.name
        own = Ownership(self.group.name, self.member_id, self._told_generation, partitions, self.instance or "")
        history.ok(history.invoke(name, function, own, at=at), None, life=life)

    # Consuming

    async def _consume(self) -> None:
        """Raises ConnectionLost."""
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
        assert position is not None, "it is known by now"
        reader = self._readers.setdefault(partition, attrs.evolve(self.client))
        began = trio.current_time()
        try:
            if not reader.is_connected:
                await self._seek_leader(reader, partition)
            async with reader.connected() as connection:
                life = self.client.life(connection, *partition)
                epoch = self._leader_epochs[partition]
                data = await fetch(connection, Polling(*partition, position), wait_ms=_POLL_MS, leader_epoch=epoch)
                records = records_of(data, position)
        except FetchRefused as error:
            await self.client.back_off()
            if str(error) == ErrorCode.OFFSET_OUT_OF_RANGE.name and life:
                self.positions[partition] = 0  # the end was lost that this was behind
        except ConnectionLost:
            await self.client.back_off()
        except Corrupt as error:
            self.client.history.fail(self._polled(partition, began), str(error))
        else:
            if records and self.client.life(connection, *partition) == life:
                self.client.history.ok(self._polled(partition, began), records, life=life)
                self.positions[partition] = records[-1][0] + 1

    async def _seek_leader(self, reader: Client, partition: TopicPartition) -> None:
        """Have it be no earlier leader than is known of. Raises ConnectionLost."""
        epoch = await reader.seek_leader(*partition)
        self._hear_of_leader(partition, epoch)
        if epoch < self._leader_epochs[partition]:
            await reader.aclose()
            raise ConnectionLost("who leads has changed since")

    def _hear_of_leader(self, partition: TopicPartition, epoch: int) -> None:
        self._leader_epochs[partition] = max(epoch, self._leader_epochs.get(partition, -1))

    def _polled(self, partition: TopicPartition, began: float) -> Any:
        poll = GroupPoll(self.group.name, self.member_id, *partition)
        return self.client.history.invoke(self.client.name, "poll-group", poll, at=began)

    # Offsets

    async def commit(self) -> None:
        """Commit how far it has come, once. Raises ConnectionLost."""
        news = {
            partition: position
            for partition, position in sorted(self.positions.items())
            if position is not None and position != self._committed.get(partition)
        }
        if not news:
            return
        history = self.client.history
        offsets = tuple((topic, index, offset) for (topic, index), offset in news.items())
        commit = Commit(self.group.name, self.member_id, self._told_generation, offsets)
        operation = history.invoke(self.client.name, "commit", commit)
        try:
            response, life = await self.ask(self._commit_request(commit), _COMMIT_VERSION)
        except ConnectionLost as error:
            history.info(operation, str(error))
            raise
        codes = [ErrorCode(each.error_code) for topic in response.topics for each in topic.partitions]
        if all(code is ErrorCode.NONE for code in codes):
            history.ok(operation, None, life=life)
            self._note_committed(news)
        elif all(code in _REFUSALS for code in codes):
            history.fail(operation, codes[0].name)
        else:
            history.info(operation, codes[0].name)
        for code in dict.fromkeys(codes):
            if code is not ErrorCode.NONE:
                await self.heed(code)

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
        """Begin where the group has come to, and at the start where it has committed nothing. Raises ConnectionLost."""
        told = await self.fetch_committed(partitions)
        self.positions |= {partition: max(0, offset) for partition, offset in told.items()}

    async def fetch_committed(self, partitions: tuple[TopicPartition, ...]) -> Mapping[TopicPartition, int]:
        """What the group has committed, -1 where that is nothing; empty where it is refused. Raises ConnectionLost."""
        history = self.client.history
        read = CommittedRead(self.group.name, self.member_id, partitions)
        operation = history.invoke(self.client.name, "fetch-committed", read)
        try:
            led = self._is_led()
            response, life = await self.ask(self._fetch_request(partitions), _FETCH_VERSION)
            if not led or not self._is_led():
                # A coordinator that was deposed, and has not heard of it, tells what it knows.
                raise ConnectionLost("another one coordinates by now")
        except ConnectionLost as error:
            history.info(operation, str(error))
            raise
        (group,) = response.groups
        codes = [group.error_code, *(each.error_code for topic in group.topics for each in topic.partitions)]
        code = next((ErrorCode(each) for each in codes if each), None)
        if code is not None:
            history.fail(operation, code.name)
            await self.heed(code)
            return {}
        told = {}
        for topic in group.topics:
            for each in topic.partitions:
                told[topic.name, each.partition_index] = each.committed_offset
                self._hear_of_leader((topic.name, each.partition_index), each.committed_leader_epoch)
        history.ok(operation, tuple((*partition, told[partition]) for partition in partitions), life=life)
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

    def _life(self, connection: Connection) -> int:
        return self.client.life(connection, CONSUMER_OFFSETS, self.group.index)

    def _is_led(self) -> bool:
        """Whether whom it asks coordinates the group, as far as anybody knows; so does nobody before it is known."""
        address = self._coordinator.address
        return address is None or self.group.leads(address[0], CONSUMER_OFFSETS, self.group.index)


class Auditor(GroupMember):
    """No member, but somebody who asks again and again how far the group has come."""

    async def run(self) -> None:
        """Until cancelled."""
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
        """Nothing is asked of it."""

    async def leave(self) -> None:
        """It never came."""

    def refused(self, code: ErrorCode) -> None:
        """It asks again in any case."""

    def fetch_identity(self) -> tuple[str | None, int]:
        return None, -1
