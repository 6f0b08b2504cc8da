"""The share coordinator's interface for handlers, and its periodic work (KIP-932)."""

from collections.abc import Callable
from functools import partial

import trio

from broker.config import KafkaConfig
from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import Decision
from broker.coordinator.runtime.runtime import CoordinatorRuntime
from broker.coordinator.share import requests
from broker.coordinator.share.shard import ShareCoordinatorShard
from broker.coordinator.share.share_state import PartitionState, PartitionSummary, SharePartitionKey
from broker.replication.record_deletion import delete_before
from broker.replication.replica_manager import ReplicaManager
from broker.wire.errors import ErrorCode, KafkaError
from kraft.env import Tracer


class ShareCoordinator:
    """Routes requests to the shard of their share-partition.

    `config` returns the configuration in force. `run` must run. `write_count` counts writes, and `last_pruned` has the
    offsets before which records were deleted, by the partition of `__share_group_state`. `record_write_s` is called
    with the time in seconds that each write took.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[ShareCoordinatorShard],
        config: Callable[[], KafkaConfig],
        partitions: ReplicaManager,
        trace: Tracer,
    ) -> None:
        self.runtime = runtime
        self._config = config
        self._partitions = partitions
        self._trace = trace
        self.write_count = 0
        self.last_pruned: dict[int, int] = {}
        self.record_write_s: Callable[[float], None] = _ignore

    # Requests

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Completion[None]:
        """Completes when the share-partition has an empty state. Fails with FENCED_STATE_EPOCH, INVALID_REQUEST,
        UNKNOWN_TOPIC_OR_PARTITION, and the errors of `CoordinatorRuntime.write`.
        """
        decide = partial(requests.initialize, key=key, state_epoch=state_epoch, start_offset=start_offset)
        return self.runtime.write(self._partition(key), decide)

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Completion[PartitionState]:
        """Completes with the state, when leaders of earlier epochs are fenced. Fails as `initialize`, and with
        FENCED_LEADER_EPOCH.
        """
        return self.runtime.write(self._partition(key), partial(self._read, key=key, leader_epoch=leader_epoch))

    def _read(
        self, state: ShareCoordinatorShard, now_ms: int, *, key: SharePartitionKey, leader_epoch: int
    ) -> Decision[PartitionState]:
        decision = requests.read(state, now_ms, key=key, leader_epoch=leader_epoch)
        self.write_count += bool(decision.records)
        return decision

    def write(self, key: SharePartitionKey, written: requests.Write) -> Completion[None]:
        """Completes when the write is committed. Fails as `read`, and with FENCED_STATE_EPOCH."""
        self.write_count += 1
        began = trio.current_time()
        completion = self.runtime.write(self._partition(key), partial(requests.write, key=key, written=written))
        completion.then(lambda outcome: self.record_write_s(trio.current_time() - began))
        return completion

    def delete(self, key: SharePartitionKey) -> Completion[None]:
        """Completes when the share-partition has no state. Fails with INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, and
        the errors of `CoordinatorRuntime.write`.
        """
        return self.runtime.write(self._partition(key), partial(requests.delete, key=key))

    def read_summary(self, key: SharePartitionKey) -> Completion[PartitionSummary]:
        """Completes with the summary of the state. Fails as `delete`."""
        return self.runtime.read(self._partition(key), partial(requests.read_summary, key=key))

    def _partition(self, key: SharePartitionKey) -> int:
        return self.runtime.partition_for(key.coordinator_key)

    # Pruning

    async def run(self) -> None:
        """Deletes redundant records of `__share_group_state` at intervals, until cancelled."""
        while True:
            await trio.sleep(self._config().share_coordinator_state_topic_prune_interval_ms / 1000)
            await self.prune()

    async def prune(self) -> None:
        """Deletes the redundant records of all partitions that this broker coordinates.

        The redundant offset is used only when the snapshots that made it so are committed: then every later
        coordinator has them, and no truncation removes them.
        """
        led = self.runtime.led_partitions
        self.last_pruned = {index: offset for index, offset in self.last_pruned.items() if index in led}
        for index in led:
            offset = await self.runtime.read(index, lambda state, now_ms: state.redundant_offset).wait()
            if not isinstance(offset, KafkaError) and offset and offset != self.last_pruned.get(index):
                self._delete_before(index, offset)
            await trio.lowlevel.checkpoint()

    def _delete_before(self, index: int, offset: int) -> None:
        """Deletes records, if this broker still leads the partition. A failure is made up for after the interval."""
        topic = self.runtime.settings.topic
        try:
            partition = self._partitions.get(topic, index)
            log = partition.leader_log()
            try:
                delete_before(partition, log, offset)
            except OSError as error:
                self._partitions.log_failed(partition, error)
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except KafkaError as error:
            self._trace("share_state_not_pruned", topic=topic, partition=index, offset=offset, error=error.code.name)
        else:
            self.last_pruned[index] = offset
            self._trace("share_state_pruned", topic=topic, partition=index, offset=offset)


def _ignore(seconds: float) -> None:
    """Until a metric is registered."""
