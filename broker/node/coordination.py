"""The coordinators of a broker, made when they are first needed.

A start would spend a quarter of its time on their imports, and they would take 5 MB of the memory of a node that has no
groups and transactions.
"""

from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

import trio

from broker.controller_client.channel import ControllerChannel
from broker.coordinator.internal_topics import INTERNAL_TOPICS
from broker.net.connection import Connection
from broker.net.deadlines import Deadlines
from broker.node.node_context import NodeContext
from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager
from broker.server.services import CoordinatorServices
from metadata.image import MetadataDelta, MetadataImage

if TYPE_CHECKING:
    from broker.node.all_coordinators import Coordinators

# The modules that the coordinators need, in an order in which each of them imports few others: each import holds the
# event loop for some milliseconds, all of them together for 40 ms.
_MODULES: Final = (
    "broker.coordinator.group.classic.requests",
    "broker.coordinator.runtime.runtime",
    "broker.coordinator.group.consumer.heartbeat",
    "broker.coordinator.group.consumer.kind",
    "broker.coordinator.group.mixed.downgrade",
    "broker.coordinator.group.share.kind",
    "broker.coordinator.group.shard",
    "broker.coordinator.group.coordinator",
    "broker.coordinator.transaction.shard",
    "broker.coordinator.transaction.coordinator",
    "broker.coordinator.transaction.verification",
    "broker.coordinator.share.shard",
    "broker.coordinator.share.state_client",
    "broker.coordinator.group.share_groups",
    "broker.share_partitions.led_partition",
    "broker.share_partitions.manager",
    "broker.node.coordinators",
    "broker.node.all_coordinators",
)


class Coordination:
    """Makes the coordinators for the first request to them, or when this broker leads a partition of their topics.

    `run` has to run before the first partition is led. `allocate_producer_id` raises KafkaError.
    """

    def __init__(
        self,
        shared: NodeContext,
        partitions: ReplicaManager,
        deadlines: Deadlines,
        channel: ControllerChannel,
        allocate_producer_id: Callable[[], Awaitable[int]],
    ) -> None:
        self._shared, self._partitions, self._deadlines, self._channel = shared, partitions, deadlines, channel
        self._allocate_producer_id = allocate_producer_id
        self._coordinators: Coordinators | None = None
        self._nursery: trio.Nursery | None = None  # None before `run` and after its end
        # Partitions of internal topics, by topic and index: their leadership changed before the coordinators were made.
        self._changed_before: dict[tuple[str, int], Partition] = {}
        partitions.when_led(self._leadership_changed)
        shared.loader.add_publisher(self._publish)

    @property
    def are_made(self) -> bool:
        return self._coordinators is not None

    async def make(self) -> None:
        """Make the coordinators if there are none, after importing what they need in steps."""
        if self._coordinators is None:
            for module in _MODULES:
                import_module(module)
                await trio.lowlevel.checkpoint()
            self.services()

    @property
    def coordinators(self) -> "Coordinators":
        return self._coordinators or self._make()

    def services(self) -> CoordinatorServices:
        return (self._coordinators or self._make()).services

    def _make(self) -> "Coordinators":
        from broker.node.all_coordinators import Coordinators  # for start-up time

        self._coordinators = made = Coordinators.make(
            self._shared, self._partitions, self._deadlines, self._channel, self._allocate_producer_id
        )
        if self._nursery is not None:
            self._nursery.start_soon(made.run)
        made.leadership_changed(list(self._changed_before.values()))
        self._changed_before.clear()
        return made

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the coordinators, once there are any, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            try:
                task_status.started()
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def connection_closed(self, connection: Connection) -> None:
        """End the share sessions of a client that is gone."""
        if self._coordinators is not None:
            self._coordinators.share_partitions.manager.connection_closed(connection)

    def _leadership_changed(self, partitions: Sequence[Partition]) -> None:
        """Called with partitions that this broker leads in a new leader epoch, or no longer leads. Must not fail."""
        if self._coordinators is not None:
            self._coordinators.leadership_changed(partitions)
            return
        changed = {(each.topic, each.index): each for each in partitions if each.topic in INTERNAL_TOPICS}
        if changed and not self._changed_before and self._nursery is not None:
            self._nursery.start_soon(self.make)
        self._changed_before |= changed

    def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Called with each new image of the metadata, after the publishers that call `_leadership_changed`."""
        if self._coordinators is not None:
            self._coordinators.publish(delta, image)
