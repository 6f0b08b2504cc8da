"""The share coordinator's state of one partition of `__share_group_state` (KIP-932).

A share-partition begins with a snapshot. Each write appends an update, and after some updates a snapshot again. Only
the last snapshot of a share-partition and the updates after it are needed; so the log before the oldest of these
snapshots is redundant, and is deleted.

While the log is loaded, updates are kept as they are: those before the next snapshot of their share-partition are never
decoded. The others are merged together, when the share-partition is used first. Loading 1,000,000 updates takes 3 s so;
it took a minute when each of them was merged at once.
"""

from itertools import islice, takewhile
from typing import Final, Protocol

import attrs

from broker.coordinator.runtime.decision import Decision
from broker.coordinator.runtime.shard import ShardContext
from broker.coordinator.share.record_formats import (
    ShareSnapshot,
    decode_key,
    decode_snapshot,
    decode_update,
    leader_epoch_of_update,
    tombstone,
)
from broker.coordinator.share.share_state import SharePartitionKey
from broker.coordinator.share.state_updates import with_updates
from broker.wire.errors import WireError
from kraft import lazy_attrs
from metadata.image import MetadataDelta, MetadataImage

_EPOCH_MAX: Final = 0x7FFFFFFF
_COLD_SNAPSHOTS: Final = "snapshots of cold share-partitions"
_DELETED_TOPICS: Final = "states of deleted topics"
# Snapshots or tombstones of one decision, and updates that are merged for it: some 5 ms.
_RECORDS_AT_ONCE: Final = 200


class ShareConfig(Protocol):
    """The configs of the coordinator, which `broker.config.KafkaConfig` has."""

    @property
    def share_coordinator_snapshot_update_records_per_snapshot(self) -> int: ...
    @property
    def share_coordinator_cold_partition_snapshot_interval_ms(self) -> int: ...


@lazy_attrs.define(eq=False)
class ShareCoordinatorShard:
    """The share-partitions of one shard; see `CoordinatorShard` for how it changes.

    `leader_epochs` and `state_epochs` are the highest epochs so far, which fence earlier ones. `update_counts` are the
    updates since the last snapshot that was due by their number. `snapshot_offsets` are the offsets of the last
    snapshots, in ascending order; those of the share-partitions in `requested` were written for a request.
    `redundant_offset` is the offset before which no record is needed; None until a record was replayed. `states` lack
    the updates in `unmerged`, which `state_of` adds. `skipped_records` counts records that could not be decoded.
    """

    context: ShardContext
    config: ShareConfig
    states: dict[SharePartitionKey, ShareSnapshot] = attrs.field(factory=dict)
    leader_epochs: dict[SharePartitionKey, int] = attrs.field(factory=dict)
    state_epochs: dict[SharePartitionKey, int] = attrs.field(factory=dict)
    update_counts: dict[SharePartitionKey, int] = attrs.field(factory=dict)
    snapshot_offsets: dict[SharePartitionKey, int] = attrs.field(factory=dict)
    requested: dict[SharePartitionKey, None] = attrs.field(factory=dict)
    redundant_offset: int | None = None
    unmerged: dict[SharePartitionKey, list[bytes]] = attrs.field(factory=dict)
    skipped_records: int = 0
    _is_loaded: bool = False
    _deleted_topics: dict[bytes, None] = attrs.field(factory=dict)

    # Replay

    def replay(self, key: bytes, value: bytes | None, offset: int, producer_id: int = -1) -> None:
        """See `CoordinatorShard.replay`. A record that cannot be decoded is skipped as well.

        An update does not replace earlier updates of its key: each has to be replayed.
        """
        try:
            decoded = decode_key(key)
            if decoded is None:
                self.skipped_records += 1
                return
            kind, place = decoded
            if value is None:
                self._remove(place, offset)
            elif kind is ShareSnapshot:
                self._replay_snapshot(place, decode_snapshot(value), offset)
            else:
                self._replay_update(place, value)
        except WireError:
            self.skipped_records += 1

    def _replay_snapshot(self, key: SharePartitionKey, snapshot: ShareSnapshot, offset: int) -> None:
        self.leader_epochs[key] = max(self.leader_epochs.get(key, snapshot.leader_epoch), snapshot.leader_epoch)
        self.state_epochs[key] = max(self.state_epochs.get(key, snapshot.state_epoch), snapshot.state_epoch)
        self.states[key] = snapshot
        self.unmerged.pop(key, None)
        if self.update_counts.get(key, 0) >= self.config.share_coordinator_snapshot_update_records_per_snapshot:
            self.update_counts[key] = 0
        self.snapshot_offsets.pop(key, None)
        self.snapshot_offsets[key] = offset
        if snapshot.created_ms == snapshot.written_ms:
            self.requested[key] = None
        else:
            self.requested.pop(key, None)
        self.redundant_offset = next(iter(self.snapshot_offsets.values()))

    def _replay_update(self, key: SharePartitionKey, value: bytes) -> None:
        leader_epoch = leader_epoch_of_update(value)
        if self._is_loaded:
            self.states[key] = with_updates(self.state_of(key), [decode_update(value)])
        else:
            self.unmerged.setdefault(key, []).append(value)
        self.leader_epochs[key] = max(self.leader_epochs.get(key, leader_epoch), leader_epoch)
        self.update_counts[key] = self.update_counts.get(key, 0) + 1

    def state_of(self, key: SharePartitionKey) -> ShareSnapshot | None:
        """The state of a share-partition. Updates that cannot be decoded are skipped."""
        updates = []
        for value in self.unmerged.pop(key, ()):
            try:
                updates.append(decode_update(value))
            except WireError:
                self.skipped_records += 1
        if updates:
            self.states[key] = with_updates(self.states.get(key), updates)
        return self.states.get(key)

    def _remove(self, key: SharePartitionKey, offset: int) -> None:
        for kept in (self.states, self.leader_epochs, self.state_epochs, self.update_counts, self.snapshot_offsets):
            kept.pop(key, None)
        self.requested.pop(key, None)
        self.unmerged.pop(key, None)
        self.redundant_offset = next(iter(self.snapshot_offsets.values()), offset)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """No transaction writes to this topic."""

    # Leadership and metadata

    def loaded(self, now_ms: int) -> None:
        """See `CoordinatorShard.loaded`."""
        self._is_loaded = True
        self._schedule_snapshots()

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See `CoordinatorShard.metadata_changed`. The states of deleted topics are removed."""
        if delta.topics.deleted and self.states:
            self._deleted_topics.update(dict.fromkeys(delta.topics.deleted))
            self.context.timers.schedule_once(_DELETED_TOPICS, 0, remove_deleted_topics)

    def _schedule_snapshots(self) -> None:
        interval_ms = self.config.share_coordinator_cold_partition_snapshot_interval_ms
        self.context.timers.schedule(_COLD_SNAPSHOTS, interval_ms, snapshot_cold_partitions)

    def schedule_again(self, *, snapshots: bool) -> None:
        """Continues at once with the snapshots of cold share-partitions, or with the states of deleted topics."""
        if snapshots:
            self.context.timers.schedule(_COLD_SNAPSHOTS, 0, snapshot_cold_partitions)
        else:
            self.context.timers.schedule(_DELETED_TOPICS, 0, remove_deleted_topics)


def remove_deleted_topics(state: ShareCoordinatorShard, now_ms: int) -> Decision[None]:
    """Removes the states of share-partitions whose topics were deleted."""
    deleted = state._deleted_topics
    removed = [key for key in state.states if key.topic_id in deleted]

    def done() -> None:
        if len(removed) > _RECORDS_AT_ONCE:
            state.schedule_again(snapshots=False)
        else:
            deleted.clear()

    return Decision([tombstone(key) for key in removed[:_RECORDS_AT_ONCE]], None, done, atomic=False)


def snapshot_cold_partitions(state: ShareCoordinatorShard, now_ms: int) -> Decision[None]:
    """Writes snapshots of share-partitions without one for an interval, so that the log before them is redundant.

    Writes nothing if the last snapshot of all share-partitions was of this kind: then nothing else fills the log. Such
    a snapshot keeps the time at which the state was last written for a request.
    """
    oldest_ms = now_ms - state.config.share_coordinator_cold_partition_snapshot_interval_ms
    in_order = list(islice(state.snapshot_offsets, _RECORDS_AT_ONCE)) if state.requested else []
    records, work = [], 0
    for key in takewhile(lambda key: state.states[key].written_ms <= oldest_ms, in_order):
        work += 1 + len(state.unmerged.get(key, ()))
        cold = state.state_of(key)
        assert cold is not None, "it has a snapshot"
        records.append(attrs.evolve(cold, snapshot_epoch=next_snapshot_epoch(cold), written_ms=now_ms).record(key))
        if work >= _RECORDS_AT_ONCE:
            break

    def schedule_next() -> None:
        if work >= _RECORDS_AT_ONCE:
            state.schedule_again(snapshots=True)
        else:
            state._schedule_snapshots()

    return Decision(records, None, schedule_next, atomic=False)


def next_snapshot_epoch(state: ShareSnapshot) -> int:
    """The epoch of the next snapshot of a share-partition."""
    return min(state.snapshot_epoch + 1, _EPOCH_MAX)
