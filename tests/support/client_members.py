"""Group members of the client library, which poll but do not check records."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio

from broker.client.cluster import Cluster
from broker.client.config import read_config
from broker.client.consumer.config import ConsumerConfig
from broker.client.consumer.group import GroupMember, RebalanceListener
from broker.client.consumer.group.assignors import Assignor
from broker.client.open_cluster import open_cluster
from broker.client.types import OffsetAndMetadata, TopicPartition

WITHIN_S = 30.0
_POLL_S = 0.02


class PollingState:
    """The partitions of a consumer that reads one record of each per poll."""

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.pending: set[TopicPartition] = set()

    def assigned_partitions(self) -> Collection[TopicPartition]:
        return list(self.positions)

    def mark_pending_revocation(self, partitions: Collection[TopicPartition]) -> None:
        self.pending.update(partitions)

    def assign_from_group(self, partitions: Collection[TopicPartition]) -> None:
        self.positions = {partition: self.positions.get(partition, 0) for partition in partitions}
        self.pending = set()

    def consumed_offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return {partition: OffsetAndMetadata(offset) for partition, offset in self.positions.items()}


class ClientMember(RebalanceListener):
    """Polls until it is stopped. `events` are the calls of its listener, as ("assigned", partitions) and the like."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig, assignors: Collection[Assignor]) -> None:
        self.state = PollingState()
        self.member = GroupMember(cluster, config, self.state, assignors=list(assignors))
        self.events: list[tuple[str, list[TopicPartition]]] = []
        self.errors: list[Exception] = []
        self.is_polling = True

    async def poll(self) -> None:
        while self.is_polling:
            self.member.poll_made()
            try:
                await self.member.apply_changes()
            except Exception as error:  # noqa: BLE001 - told by the test
                self.errors.append(error)
                return
            with trio.move_on_after(_POLL_S):
                await self.member.wait_for_changes()

    async def on_revoked(self, partitions: Any) -> None:
        self.events.append(("revoked", list(partitions)))

    async def on_assigned(self, partitions: Any) -> None:
        self.events.append(("assigned", list(partitions)))

    async def on_lost(self, partitions: Any) -> None:
        self.events.append(("lost", list(partitions)))

    def kinds(self) -> list[str]:
        """The listener's calls that concern partitions, in order."""
        return [kind for kind, partitions in self.events if partitions]

    def names(self) -> list[str]:
        return sorted(f"{topic}{index}" for topic, index in self.state.positions)


@asynccontextmanager
async def client_member(
    servers: int | list[str],
    group: str,
    topics: Collection[str] = ("a",),
    *,
    pattern: Any = None,
    assignors: Collection[Assignor] = (),
    **settings: object,
) -> AsyncIterator[ClientMember]:
    """A member that polls within the block, and leaves at its end. `servers` are addresses, or a port of this host."""
    bootstrap = f"127.0.0.1:{servers}" if isinstance(servers, int) else servers
    quick = {"heartbeat_interval_ms": 200, "session_timeout_ms": 6_000, "retry_backoff_ms": 20}
    config = read_config(ConsumerConfig, bootstrap, settings={"group_id": group, **quick, **settings})
    async with open_cluster(config) as cluster, trio.open_nursery() as nursery:
        member = ClientMember(cluster, config, assignors)
        nursery.start_soon(member.member.run)
        member.member.subscribe(() if pattern else topics, pattern=pattern, listener=member)
        nursery.start_soon(member.poll)
        yield member
        member.is_polling = False
        with trio.fail_after(WITHIN_S):
            await member.member.leave()
        nursery.cancel_scope.cancel()


async def until_owned(members: Collection[ClientMember], wanted: Collection[str]) -> None:
    """Waits until the members own exactly these partitions, each by one of them."""
    with trio.fail_after(WITHIN_S):
        while sorted(name for member in members for name in member.names()) != sorted(wanted):
            assert [member.errors for member in members if member.errors] == []
            await trio.sleep(0.01)
