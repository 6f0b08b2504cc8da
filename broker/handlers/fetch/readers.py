"""The kinds of readers: followers, consumers, debuggers. Each has its rules for what a fetch returns and waits for.

A follower reads up to the log's end, from the leader only; its fetch offset tells the leader what it has. A consumer
reads what is committed, from the leader, or from any replica if its version of Fetch can name a nearer one (KIP-392).
"""

from collections.abc import Iterable
from math import inf
from typing import Final

from broker.replication.commit_state import READ_COMMITTED, READ_UNCOMMITTED
from broker.replication.fetch_sessions import BrokerIncarnation
from broker.replication.fetch_targets import FetchedPartition, FetchTarget
from broker.replication.in_sync_replicas import Follower
from broker.replication.leader_role import find_follower, follower_fetched
from broker.replication.partition import Partition
from broker.replication.replica_selector import ReplicaSelector, preferred_read_replica
from broker.replication.throttles import Throttle
from broker.replication.waiters import Waiter
from broker.server.context import RequestContext
from broker.storage.log import Log
from broker.wire.api.fetch import FetchRequest, ReplicaState

# From this version on consumers can be told of other replicas, and may ask any.
READ_REPLICAS_FROM: Final = 11
# In place of a broker's id.
CONSUMER_REPLICA_ID: Final = -1
DEBUGGING_REPLICA_ID: Final = -2
# A client without a fetch session names its partitions in each request, and was sent nothing before.
_NEVER_SENT: Final = -1


class Reader:
    """A consumer that reads what is committed. `leader_only` from the leader alone."""

    __slots__ = ("_isolation_level", "_leader_only")

    is_follower = False

    def __init__(self, isolation_level: int, *, leader_only: bool) -> None:
        self._isolation_level = isolation_level
        self._leader_only = leader_only

    @property
    def incarnation(self) -> BrokerIncarnation | None:
        """The incarnation of the follower; None for other readers."""
        return None

    @property
    def is_read_committed(self) -> bool:
        """True if it must be told of aborted transactions."""
        return self._isolation_level == READ_COMMITTED

    def log(self, partition: Partition, target: FetchTarget) -> Log:
        """The log to read. Raises KafkaError where this replica is not the one to ask."""
        if self._leader_only:
            return partition.leader_log(target.current_leader_epoch)
        return partition.committed_log(target.current_leader_epoch)

    def read_replica(self, partition: Partition, target: FetchTarget) -> int | None:
        """The broker to read from instead, where another one is nearer."""
        return None

    def end(self, partition: Partition, log: Log) -> int:
        """Up to where it may read."""
        return partition.commit_state.end_for(log, self._isolation_level)

    def begin(self) -> None:
        """Everything that it may read is going to be looked at."""

    @property
    def may_go_on(self) -> bool:
        """Whether a throttle lets something through again that it has held back."""
        return True

    def allowance(self, partition: Partition) -> float:
        """How many bytes of the partition a throttle lets through, inf where there is none."""
        return inf

    def reads(self, partition: Partition, size: int) -> None:
        """So many bytes of the partition are going to be sent, unless they are looked at again."""

    def sent(self, fetched: Iterable[FetchedPartition]) -> None:
        """This is its answer."""

    def note(self, partition: Partition, log: Log, target: FetchTarget) -> None:
        """It asks for what comes next: once per request, since while it waits it says nothing new."""

    def is_news(self, fetched: FetchedPartition) -> bool:
        """Whether this is worth an answer although there is nothing to read."""
        return False

    def is_settled(self, partition: Partition, log: Log, target: FetchTarget) -> bool:
        """Whether there is nothing to say of a target of which nothing was read, until its partition moves."""
        return target.fetch_offset >= self.end(partition, log)

    def wait(self, partition: Partition, waiter: Waiter[Partition]) -> None:
        """Notify the waiter when there may be more to read."""
        partition.waiters.for_high_watermark[waiter] = None

    def heeds(self, partition: Partition, target: FetchTarget) -> bool:
        """Whether a request that waits is to look at a partition that has moved; otherwise the next answer will do."""
        return True

    def go_on_waiting(self, partition: Partition, waiter: Waiter[Partition]) -> None:
        """Notify the waiter when there is something that it heeds."""
        self.wait(partition, waiter)


class NearbyReader(Reader):
    """A consumer that says where it is: in `rack`, and come through `listener`."""

    __slots__ = ("_listener", "_rack", "_select")

    def __init__(self, isolation_level: int, *, rack: str, listener: str, select: ReplicaSelector) -> None:
        super().__init__(isolation_level, leader_only=False)
        self._rack, self._listener, self._select = rack, listener, select

    def read_replica(self, partition: Partition, target: FetchTarget) -> int | None:
        return preferred_read_replica(
            partition, target.fetch_offset, rack=self._rack, listener=self._listener, select=self._select
        )

    def is_settled(self, partition: Partition, log: Log, target: FetchTarget) -> bool:
        """False if it reads here only because no nearer replica is in sync: that may change any time."""
        local = partition.context.broker(partition.local_id)
        is_near = not partition.leads or (local is not None and local.rack == self._rack)
        return is_near and super().is_settled(partition, log, target)


class DebuggingReader(Reader):
    """A debugging client: reads up to the log's end, from the replica that it asks."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(READ_UNCOMMITTED, leader_only=False)

    def log(self, partition: Partition, target: FetchTarget) -> Log:
        return partition.readable_log(target.current_leader_epoch)

    def end(self, partition: Partition, log: Log) -> int:
        return log.readable_end_offset

    def wait(self, partition: Partition, waiter: Waiter[Partition]) -> None:
        partition.waiters.for_log_end[waiter] = None


class FollowerReader(Reader):
    """A broker that replicates. `hurries` tells it of a new high watermark at once, for those who read from it.

    `throttle` holds back what it is sent of throttled replicas, unless what is committed waits for it: it is in sync
    then, or about to be.
    """

    __slots__ = ("_hurries", "_planned", "_replica", "_throttle")

    is_follower = True

    def __init__(self, replica: ReplicaState, throttle: Throttle, *, hurries: bool) -> None:
        super().__init__(READ_UNCOMMITTED, leader_only=True)
        self._replica = replica
        self._throttle = throttle
        self._planned = 0
        self._hurries = hurries

    @property
    def incarnation(self) -> BrokerIncarnation:
        return self._replica.replica_id, self._replica.replica_epoch

    def log(self, partition: Partition, target: FetchTarget) -> Log:
        log = super().log(partition, target)
        self._follower(partition, target)
        return log

    def end(self, partition: Partition, log: Log) -> int:
        return log.readable_end_offset

    def begin(self) -> None:
        self._planned = 0

    @property
    def may_go_on(self) -> bool:
        return self._throttle.has_room

    def allowance(self, partition: Partition) -> float:
        if not partition.throttled_as_leader or self._is_waited_for(partition):
            return inf
        return self._throttle.allowance - self._planned

    def reads(self, partition: Partition, size: int) -> None:
        if partition.throttled_as_leader:
            self._planned += size

    def sent(self, fetched: Iterable[FetchedPartition]) -> None:
        """In sync or not, it counts for the rate."""
        for each in fetched:
            partition = each.target.partition
            if each.records is not None and partition is not None and partition.throttled_as_leader:
                self._throttle.record(len(each.records))

    def note(self, partition: Partition, log: Log, target: FetchTarget) -> None:
        follower_fetched(
            partition,
            log,
            self._follower(partition, target),
            broker_epoch=self._replica.replica_epoch,
            fetch_offset=target.fetch_offset,
            log_start_offset=target.log_start_offset,
        )

    def is_news(self, fetched: FetchedPartition) -> bool:
        """True if the log start moved, which a DeleteRecords request may wait for, or the high watermark."""
        told = fetched.target
        if _NEVER_SENT != told.sent_log_start_offset < fetched.log_start_offset:
            return True
        return self._hurries and _NEVER_SENT != told.sent_high_watermark < fetched.high_watermark

    def is_settled(self, partition: Partition, log: Log, target: FetchTarget) -> bool:
        """Not while it is out of sync: each of its requests is an occasion to propose it, which may be refused."""
        return self._is_in_sync(partition) and super().is_settled(partition, log, target)

    def wait(self, partition: Partition, waiter: Waiter[Partition]) -> None:
        partition.waiters.for_log_end[waiter] = None
        partition.waiters.for_high_watermark[waiter] = None

    def go_on_waiting(self, partition: Partition, waiter: Waiter[Partition]) -> None:
        """For the log's end alone: the high watermark moves as often, and is of no interest until something is told.

        The partition may have had everybody look again, without having more, when its in-sync replicas changed.
        """
        partition.waiters.for_log_end[waiter] = None

    def heeds(self, partition: Partition, target: FetchTarget) -> bool:
        """That no more than the high watermark has moved can wait, unless the follower is to hurry."""
        log = partition.log
        return (
            self._hurries
            or log is None
            or partition.leader_epoch != target.current_leader_epoch
            or log.readable_end_offset != target.fetch_offset
            or log.log_start_offset != target.sent_log_start_offset
        )

    def _is_in_sync(self, partition: Partition) -> bool:
        return partition.in_sync is not None and self._replica.replica_id in partition.in_sync.isr

    def _is_waited_for(self, partition: Partition) -> bool:
        """Then to hold it back would hold back producers: also before it is in sync, once it is about to be."""
        in_sync, log = partition.in_sync, partition.log
        follower = None if in_sync is None else in_sync.followers.get(self._replica.replica_id)
        if in_sync is None or follower is None or log is None:
            return False
        return in_sync.waits_for(follower, log.readable_end_offset, partition.context.now_ms())

    def _follower(self, partition: Partition, target: FetchTarget) -> Follower:
        replica = self._replica
        return find_follower(partition, replica.replica_id, replica.replica_epoch, target.current_leader_epoch)


def reader_of(context: RequestContext, request: FetchRequest) -> Reader:
    """The reader that a request comes from."""
    select = context.services.replica_selector
    replica = request.replica_state or ReplicaState(replica_id=request.replica_id)
    if replica.replica_id >= 0:
        return FollowerReader(replica, context.services.throttles.leader, hurries=select is not None)
    if replica.replica_id == DEBUGGING_REPLICA_ID:
        return DebuggingReader()
    if select is not None and request.rack_id:
        return NearbyReader(request.isolation_level, rack=request.rack_id, listener=context.listener, select=select)
    return Reader(request.isolation_level, leader_only=context.api_version < READ_REPLICAS_FROM)
