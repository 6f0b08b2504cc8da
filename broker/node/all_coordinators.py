"""All coordinators of a broker, as they belong together."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio

from broker.controller_client.channel import ControllerChannel
from broker.coordinator.runtime.runtime import CoordinatorKeyType, CoordinatorRuntime
from broker.coordinator.share.state_client import ShareStateClient
from broker.net.deadlines import Deadlines
from broker.node.coordinators import group_coordinator, shares, transactions
from broker.node.node_context import NodeContext
from broker.node.share_partitions import LedSharePartitions, share_partitions
from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager
from broker.server.services import CoordinatorServices, ShareServices
from kraft import lazy_attrs
from metadata.image import MetadataDelta, MetadataImage


@lazy_attrs.frozen
class Coordinators:
    """All coordinators of a broker, and its share-partitions. The caller runs them."""

    services: CoordinatorServices
    share_partitions: LedSharePartitions
    share_states: ShareStateClient
    _runs: tuple[Callable[[], Awaitable[None]], ...]

    @classmethod
    def make(
        cls,
        shared: NodeContext,
        partitions: ReplicaManager,
        deadlines: Deadlines,
        channel: ControllerChannel,
        allocate_producer_id: Callable[[], Awaitable[int]],
    ) -> "Coordinators":
        """`allocate_producer_id` raises KafkaError."""
        groups = group_coordinator(shared, partitions, deadlines)
        for_transactions = transactions(shared, partitions, deadlines, groups, allocate_producer_id)
        for_shares = shares(shared, partitions, deadlines, channel, groups)
        led = share_partitions(shared, partitions, for_shares.state, deadlines, channel)
        runtimes: dict[int, CoordinatorRuntime[Any]] = {
            CoordinatorKeyType.GROUP: groups.runtime,
            CoordinatorKeyType.TRANSACTION: for_transactions.coordinator.runtime,
            CoordinatorKeyType.SHARE: for_shares.coordinator.runtime,
        }
        services = CoordinatorServices(
            groups=groups,
            transactions=for_transactions.coordinator,
            transaction_markers=for_transactions.markers,
            transaction_verifier=for_transactions.verifier,
            shares=ShareServices(for_shares.coordinator, for_shares.groups, led.manager),
            runtimes=runtimes,
        )
        runs = (for_transactions.run, for_shares.run, led.run, *(each.run for each in runtimes.values()))
        return cls(services, led, for_shares.state, runs)

    async def run(self) -> None:
        """Run all of it, until cancelled."""
        async with trio.open_nursery() as nursery:
            for run in self._runs:
                nursery.start_soon(run)

    def leadership_changed(self, partitions: Sequence[Partition]) -> None:
        """Called with partitions that this broker leads in a new leader epoch, or no longer leads. Must not fail."""
        for runtime in self.services.runtimes.values():
            runtime.leadership_changed(partitions)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Called with each new image of the metadata, after the publishers that call `leadership_changed`."""
        for runtime in self.services.runtimes.values():
            runtime.publish(delta, image)
        self.share_partitions.publish(delta, image)
