"""Policies that decide what a fetch returns and waits for, by client: consumer, follower or debugging client.

A follower reads up to the log's end, from the leader only; its fetch offset tells the leader what it has replicated. A
consumer reads committed records, from the leader, or from any replica with versions of Fetch that can name a preferred
read replica (KIP-392).
"""

from collections.abc import Iterable
from math import inf
from typing import Final

from broker.replication.cached_partition import CachedPartition, FetchedPartition
from broker.replication.commit_state import READ_COMMITTED, READ_UNCOMMITTED
from broker.replication.fetch_sessions import BrokerIncarnation
from broker.replication.leader_role import LeaderRole, leading
from broker.replication.partition import Partition
from broker.replication.replica_selector import ReplicaSelector, preferred_read_replica
from broker.replication.throttles import Throttle
from broker.replication.waiters import Waiter
from broker.server.context import BrokerContext
from broker.storage.log import Log
from broker.wire.api.fetch import FetchRequest, ReplicaState
from broker.wire.errors import ErrorCode

# From this version on responses can name a preferred read replica, and consumers may fetch from any replica.
READ_REPLICAS_FROM: Final = 11
# Replica ids in requests of clients that are no brokers.
CONSUMER_REPLICA_ID: Final = -1
DEBUGGING_REPLICA_ID: Final = -2
# The offset of a cached partition for which no response was sent yet, as in every request without a fetch session.
_NEVER_SENT: Final = -1


class FetchPolicy:
    """The policy for a consumer: committed records, only from the leader if `leader_only`. Others override it."""

    __slots__ = ("_isolation_level", "_leader_only")

    is_follower = False

    def __init__(self, isolation_level: int, *, leader_only: bool) -> None:
        self._isolation_level = isolation_level
        self._leader_only = leader_only

    @property
    def incarnation(self) -> BrokerIncarnation | None:
        """The incarnation of the follower; None for other clients."""
        return None

    @property
    def is_read_committed(self) -> bool:
        """True if responses list aborted transactions."""
        return self._isolation_level == READ_COMMITTED

    def log(self, partition: Partition, cached: CachedPartition) -> Log:
        """The log to read. Raises KafkaError if the client may not read from this replica."""
        if self._leader_only:
            return partition.leader_log(cached.current_leader_epoch)
        return partition.committed_log(cached.current_leader_epoch)

    def read_replica(self, partition: Partition, cached: CachedPartition) -> int | None:
        """The id of the broker that the client should read from instead; None to read here."""
        return None

    def end_offset(self, partition: Partition, log: Log) -> int:
        """The offset up to which the client may read, exclusive."""
        return partition.commit_state.end_for(log, self._isolation_level)

    def reset_planned_bytes(self) -> None:
        """Forget the bytes of `plan_bytes`: all cached partitions are about to be read again."""

    @property
    def throttle_has_room(self) -> bool:
        """True if the replication throttle lets held cached partitions through again."""
        return True

    def throttle_allowance(self, partition: Partition) -> float:
        """The number of bytes that the replication throttle allows for the partition; inf if it is not throttled."""
        return inf

    def plan_bytes(self, partition: Partition, size: int) -> None:
        """Count `size` bytes of the partition that the response will contain against `throttle_allowance`."""

    def record_sent_bytes(self, fetched: Iterable[FetchedPartition]) -> None:
        """Count the records of the response, for metrics and the replication throttle, and the errors."""
        for each in fetched:
            partition = each.cached.partition
            if partition is None:
                continue
            if each.records is not None:
                partition.bytes_out += len(each.records)
            elif each.error is not ErrorCode.NONE:
                partition.failed_fetches += 1

    def update_follower_state(self, partition: Partition, log: Log, cached: CachedPartition) -> None:
        """Update the leader's state of the follower with its fetch offset; called once per request and partition."""

    def is_due_without_records(self, fetched: FetchedPartition) -> bool:
        """True if a result without records has to be sent at once."""
        return False

    def stays_idle(self, partition: Partition, log: Log, cached: CachedPartition) -> bool:
        """True if a cached partition without new records need not be read again until its partition changes."""
        return cached.fetch_offset >= self.end_offset(partition, log)

    def add_waiter(self, partition: Partition, waiter: Waiter[Partition]) -> None:
        """Notify the waiter when the partition may have more records for this client."""
        partition.waiters.for_high_watermark[waiter] = None

    def must_reread(self, partition: Partition, cached: CachedPartition) -> bool:
        """True if a waiting request has to read a partition that has changed; if False, the next response will do."""
        return True

    def add_reread_waiter(self, partition: Partition, waiter: Waiter[Partition]) -> None:
        """Notify the waiter when `must_reread` may be True, after it was False."""
        self.add_waiter(partition, waiter)


class RackAwareConsumerPolicy(FetchPolicy):
    """The policy for a consumer in `rack` that connected through `listener`: it may be sent to a nearer replica."""

    __slots__ = ("_listener", "_rack", "_select")

    def __init__(self, isolation_level: int, *, rack: str, listener: str, select: ReplicaSelector) -> None:
        super().__init__(isolation_level, leader_only=False)
        self._rack, self._listener, self._select = rack, listener, select

    def read_replica(self, partition: Partition, cached: CachedPartition) -> int | None:
        return preferred_read_replica(
            partition, cached.fetch_offset, rack=self._rack, listener=self._listener, select=self._select
        )

    def stays_idle(self, partition: Partition, log: Log, cached: CachedPartition) -> bool:
        """Keep reading from a leader in another rack: a nearer replica may join the in-sync replicas at any time."""
        local = partition.context.broker(partition.local_id)
        is_near = not partition.leads or (local is not None and local.rack == self._rack)
        return is_near and super().stays_idle(partition, log, cached)


class DebuggingPolicy(FetchPolicy):
    """The policy for a debugging client: it reads up to the log's end, from any replica."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(READ_UNCOMMITTED, leader_only=False)

    def log(self, partition: Partition, cached: CachedPartition) -> Log:
        return partition.readable_log(cached.current_leader_epoch)

    def end_offset(self, partition: Partition, log: Log) -> int:
        return log.readable_end_offset

    def add_waiter(self, partition: Partition, waiter: Waiter[Partition]) -> None:
        partition.waiters.for_log_end[waiter] = None


class FollowerPolicy(FetchPolicy):
    """The policy for a follower. `sends_high_watermark_at_once` serves consumers that read from followers.

    `throttle` limits the bytes that are sent of throttled replicas. It does not limit a follower that is in sync or
    about to be, because the high watermark waits for it.
    """

    __slots__ = ("_planned_bytes", "_replica", "_sends_high_watermark_at_once", "_throttle")

    is_follower = True

    def __init__(self, replica: ReplicaState, throttle: Throttle, *, sends_high_watermark_at_once: bool) -> None:
        super().__init__(READ_UNCOMMITTED, leader_only=True)
        self._replica = replica
        self._throttle = throttle
        self._planned_bytes = 0
        self._sends_high_watermark_at_once = sends_high_watermark_at_once

    @property
    def incarnation(self) -> BrokerIncarnation:
        return self._replica.replica_id, self._replica.replica_epoch

    def log(self, partition: Partition, cached: CachedPartition) -> Log:
        """The log of a leader with this follower. Raises KafkaError."""
        replica, leader_epoch = self._replica, cached.current_leader_epoch
        leader = leading(partition, leader_epoch)
        leader.find_follower(replica.replica_id, replica.replica_epoch, leader_epoch)
        return leader.log

    def end_offset(self, partition: Partition, log: Log) -> int:
        return log.readable_end_offset

    def reset_planned_bytes(self) -> None:
        self._planned_bytes = 0

    @property
    def throttle_has_room(self) -> bool:
        return self._throttle.has_room

    def throttle_allowance(self, partition: Partition) -> float:
        if not partition.throttled_as_leader or self._is_needed_for_commit(partition):
            return inf
        return self._throttle.allowance - self._planned_bytes

    def plan_bytes(self, partition: Partition, size: int) -> None:
        if partition.throttled_as_leader:
            self._planned_bytes += size

    def record_sent_bytes(self, fetched: Iterable[FetchedPartition]) -> None:
        """Records of throttled replicas count for the rate, also those of in-sync followers."""
        for each in fetched:
            partition = each.cached.partition
            if each.records is not None and partition is not None:
                partition.replication_bytes_out += len(each.records)
                if partition.throttled_as_leader:
                    self._throttle.record(len(each.records))

    def update_follower_state(self, partition: Partition, log: Log, cached: CachedPartition) -> None:
        replica, leader = self._replica, leading(partition)
        leader.follower_fetched(
            leader.find_follower(replica.replica_id, replica.replica_epoch, cached.current_leader_epoch),
            broker_epoch=replica.replica_epoch,
            fetch_offset=cached.fetch_offset,
            log_start_offset=cached.log_start_offset,
        )

    def is_due_without_records(self, fetched: FetchedPartition) -> bool:
        """True if the log start offset advanced, for which DeleteRecords may wait, or the high watermark did."""
        cached = fetched.cached
        if _NEVER_SENT != cached.sent_log_start_offset < fetched.log_start_offset:
            return True
        return self._sends_high_watermark_at_once and _NEVER_SENT != cached.sent_high_watermark < fetched.high_watermark

    def stays_idle(self, partition: Partition, log: Log, cached: CachedPartition) -> bool:
        """False while the follower is out of sync: each of its fetches lets the leader propose it for the ISR again."""
        return self._is_in_sync(partition) and super().stays_idle(partition, log, cached)

    def add_waiter(self, partition: Partition, waiter: Waiter[Partition]) -> None:
        partition.waiters.for_log_end[waiter] = None
        partition.waiters.for_high_watermark[waiter] = None

    def add_reread_waiter(self, partition: Partition, waiter: Waiter[Partition]) -> None:
        """Wait for the log's end only. The high watermark advances as often, and need not be sent by itself."""
        partition.waiters.for_log_end[waiter] = None

    def must_reread(self, partition: Partition, cached: CachedPartition) -> bool:
        """False if only the high watermark has advanced, unless the follower is sent that at once."""
        log = partition.log
        return (
            self._sends_high_watermark_at_once
            or log is None
            or partition.leader_epoch != cached.current_leader_epoch
            or log.readable_end_offset != cached.fetch_offset
            or log.log_start_offset != cached.sent_log_start_offset
        )

    def _is_in_sync(self, partition: Partition) -> bool:
        role = partition.role
        return isinstance(role, LeaderRole) and self._replica.replica_id in role.in_sync.isr

    def _is_needed_for_commit(self, partition: Partition) -> bool:
        """True if the high watermark waits for the follower: it is in sync, or is about to be proposed for the ISR."""
        role = partition.role
        if not isinstance(role, LeaderRole):
            return False
        in_sync, end_offset = role.in_sync, role.log.readable_end_offset
        follower = in_sync.followers.get(self._replica.replica_id)
        return follower is not None and in_sync.waits_for(follower, end_offset, partition.context.now_ms())


def fetch_policy(context: BrokerContext, request: FetchRequest) -> FetchPolicy:
    """The policy for the client that sent the request."""
    select = context.services.replica_selector
    replica = request.replica_state or ReplicaState(replica_id=request.replica_id)
    if replica.replica_id >= 0:
        return FollowerPolicy(
            replica, context.services.throttles.leader, sends_high_watermark_at_once=select is not None
        )
    if replica.replica_id == DEBUGGING_REPLICA_ID:
        return DebuggingPolicy()
    if select is not None and request.rack_id:
        return RackAwareConsumerPolicy(
            request.isolation_level, rack=request.rack_id, listener=context.listener, select=select
        )
    return FetchPolicy(request.isolation_level, leader_only=context.api_version < READ_REPLICAS_FROM)
