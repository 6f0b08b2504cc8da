"""A consumer of the client library as a member of a group, used as an application would.

It records its listener's calls and the records of its polls. The library does not tell which server sent a response, so
the member stops as soon as any server has lost storage since the member started.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import trio

from broker.client import ClientError, ConnectionLost, Consumer, ConsumerRecord, KafkaError, OffsetAndMetadata
from broker.client import TopicPartition as Partition
from broker.client.consumer.group import RebalanceListener
from broker.coordinator.internal_topics import CONSUMER_OFFSETS
from broker.wire.errors import ErrorCode
from jepsen.values import Commit
from jepsen.workloads.client import Client
from jepsen.workloads.group_member import REBALANCE_MS, SESSION_MS, Group, GroupMember, TopicPartition

_POLL_SECONDS: Final = 0.8
_HEARTBEAT_MS: Final = 1_500
_REQUEST_TIMEOUT_MS: Final = 3_000
_COMMIT_TIMEOUT_MS: Final = 4_000
# The probability, per poll, that the member leaves and another one takes its place.
_LEAVES: Final = 0.01


class StorageLost(Exception):
    """A server has lost storage: the library's responses may be from before or after the loss."""


class LibraryMember(GroupMember):
    """A member that uses the library's `Consumer`. `settings` select the group protocol and the assignor."""

    def __init__(
        self, client: Client, group: Group, instance: str | None = None, *, settings: dict[str, Any], **chances: float
    ) -> None:
        super().__init__(client, group, instance, **chances)
        self._settings = settings
        self._incarnations = self._all_incarnations()
        self._began = trio.current_time()

    async def run(self) -> None:
        """Consume until cancelled, replaced, or unable to record reliable results."""
        try:
            async with self._consumer() as self._library:
                self._library.subscribe(sorted(self.group.topics), listener=_Listener(self))
                while not self.is_over:
                    await self._poll_once()
        except (StorageLost, ConnectionLost, KafkaError, ClientError):
            self.is_over = True
            await self.client.back_off()
        finally:
            await self.aclose()

    async def take_part(self) -> None:
        """Do nothing: the library runs the protocol."""

    async def leave(self) -> None:
        """Do nothing: closing the consumer leaves the group."""

    def refused(self, code: ErrorCode) -> None:
        """Fail the current request. The library handles such errors of its own requests."""
        raise ConnectionLost(code.name)

    def fetch_identity(self) -> tuple[str | None, int]:
        """Ask without an identity, because the library may have changed the epoch meanwhile."""
        return None, -1

    @property
    def _known_generation(self) -> int:
        """Unknown: the library changes the generation in the background."""
        return -1

    def _consumer(self) -> Consumer:
        client = self.client
        return Consumer(
            client.bootstrap_servers,
            config=client.configs,
            client_id=client.name,
            environment=client.environment,
            group_id=self.group.name,
            group_instance_id=self.instance,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            max_poll_interval_ms=REBALANCE_MS,
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
            default_api_timeout_ms=_COMMIT_TIMEOUT_MS,
            metadata_max_age_ms=10_000,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **self._settings,
        )

    async def _poll_once(self) -> None:
        rng = self.client.rng
        if rng.random() < self._stalls:
            await trio.sleep(rng.uniform(0, 2 * REBALANCE_MS / 1000))
        began = trio.current_time()
        records = await self._library.fetch(timeout_s=_POLL_SECONDS)
        self.check_storage()
        by_partition: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in records:
            by_partition.setdefault((record.topic, record.partition), []).append(record)
        for partition, its_records in by_partition.items():
            self._record_poll(partition, its_records, began)
        if rng.random() < self._commits:
            await self.commit()
        self.is_over = rng.random() < _LEAVES

    def _record_poll(self, partition: TopicPartition, records: Sequence[ConsumerRecord], began: float) -> None:
        got = [(record.offset, (record.value or b"").rpartition(b"/")[0].decode()) for record in records]
        self.client.history.ok(self._polled(partition, began), got, incarnation=self._incarnations[partition])
        self.positions[partition] = got[-1][0] + 1

    async def commit(self) -> None:
        """Commit the positions. After an error, the outcome is recorded as unknown."""
        news = self._uncommitted_positions()
        if not news:
            return
        history = self.client.history
        offsets = tuple((topic, index, offset) for (topic, index), offset in news.items())
        operation = history.invoke(
            self.client.name, "commit", Commit(self.group.name, self.member_id, self._known_generation, offsets)
        )
        try:
            await self._library.commit({Partition(*each): OffsetAndMetadata(offset) for each, offset in news.items()})
            self.check_storage()
        except (KafkaError, ClientError, StorageLost) as error:
            history.info(operation, str(error))
            if isinstance(error, StorageLost):
                raise
        else:
            history.ok(operation, None, incarnation=self._incarnations[CONSUMER_OFFSETS, self.group.index])
            self._note_committed(news)

    # Calls of the listener

    async def on_assigned(self, partitions: Iterable[Partition]) -> None:
        """Start at the committed offsets, fetched from the current coordinator: a deposed one may have
        older offsets.
        """
        self.check_storage()
        self.member_id = self._library.group_metadata().member_id
        own = [(topic, index) for topic, index in partitions]
        self.assigned(own, self._incarnations[CONSUMER_OFFSETS, self.group.index], self._began)
        while unknown := tuple(sorted(each for each in own if self.positions[each] is None)):
            try:
                await self._find_positions(unknown)
            except ConnectionLost:
                await self._coordinator.aclose()
                await self.client.back_off()
        self.check_storage()
        for partition in own:
            self._library.seek(Partition(*partition), self.positions[partition] or 0)

    def check_storage(self) -> None:
        """Raises StorageLost if a server has lost storage since the member started."""
        if self._all_incarnations() != self._incarnations or None in self._incarnations.values():
            raise StorageLost

    def _all_incarnations(self) -> dict[TopicPartition, Any]:
        """The incarnation of each partition; None if the servers differ."""
        client = self.client
        partitions = [(topic, index) for topic, count in self.group.topics.items() for index in range(count)]
        incarnations: dict[TopicPartition, Any] = {}
        for topic, index in [*partitions, (CONSUMER_OFFSETS, self.group.index)]:
            told = {
                client.incarnations(host)
                if (incarnation := client.partition_incarnation(host, topic, index)) is None
                else incarnation
                for host, _ in client.servers
            }
            incarnations[topic, index] = told.pop() if len(told) == 1 else None
        return incarnations


class _Listener(RebalanceListener):
    """Commits the offsets of partitions that are about to be revoked."""

    def __init__(self, member: LibraryMember) -> None:
        self._member = member

    async def on_assigned(self, partitions: Sequence[Partition]) -> None:
        await self._member.on_assigned(partitions)

    async def on_revoked(self, partitions: Sequence[Partition]) -> None:
        try:
            await self._member.commit()
        finally:
            self._member.give_up("revoke", [each for each in partitions if each in self._member.positions])

    async def on_lost(self, partitions: Sequence[Partition]) -> None:
        self._member.give_up("lose", [each for each in partitions if each in self._member.positions])
