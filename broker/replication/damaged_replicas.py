"""Damage that was found in the logs of this broker's replicas while they are in use, and its repair.

Damaged records are not read as data from the moment that damage is known (`broker.storage.damage`). Then:

- A leader hands the partition over: it leaves the ISR, and the controller elects another member of it. Consumers and
  followers go on there.
- A follower, in sync or not, repairs its log from its leader (`broker.replication.segment_repair`). It loses nothing
  meanwhile, so it may stay in the ISR, and may lead if no other replica can.
- A leader without another replica in sync goes on leading. Consumers get CORRUPT_MESSAGE at the damage, and can read on
  after it.
"""

from collections.abc import Sequence
from math import inf
from typing import Final

import trio

from broker.replication.damage_checks import DamageChecks
from broker.replication.fetcher_context import FetcherContext
from broker.replication.leader_role import LeaderRole
from broker.replication.partition import Partition
from broker.storage.damage import Damage, DamagedRanges
from broker.storage.log import Log
from broker.storage.log_loader import replay_repaired
from broker.wire.errors import ErrorCode
from kraft import lazy_attrs
from kraft.env import FsyncFailed, lacks_resources

# The least pause between two attempts to repair what could not be repaired.
RETRY_S: Final = 1.0
# An attempt copies up to a segment, or reads a compacted log: attempts that fail take a tenth of the time.
_PAUSE_PER_WORK: Final = 9.0
_PAUSE_MAX_S: Final = 60.0
# The pause before a leader hands over a partition that has come back to it; it doubles each time.
HANDOVER_PAUSE_MS: Final = 10_000
_RETURNS_MAX: Final = 9


@lazy_attrs.define(eq=False)
class DamagedReplica:
    """The state of one replica. `remedy` says what repairs it, or what an operator has to do.

    `failure` is the last reason why it could not be repaired. `handed_over` is the leader epoch in which it has handed
    the partition over, -1 if it has not. The next attempt to repair it waits until `retry_at`, in Trio's time, in the
    leader epoch `failed_epoch`.
    """

    log: Log
    _first: Damage
    remedy: str = ""
    failure: str = ""
    handed_over: int = -1
    hands_over_at_ms: float = -inf
    returns: int = 0
    failed_epoch: int = -1
    retry_at: float = -inf

    @property
    def first(self) -> Damage:
        """The damage that is repaired next, or was repaired last."""
        damaged = self.log.segments.damaged
        if damaged is not None and damaged.ranges:
            self._first = damaged.ranges[0]
        return self._first

    def may_hand_over(self, partition: Partition) -> bool:
        """Whether the partition may be handed over now.

        A leader that was elected again with the same damage waits longer each time: the others may be damaged, too. Or
        the next leader has failed before this one could be repaired.
        """
        now_ms, epoch = partition.context.now_ms(), partition.leader_epoch
        if -1 != self.handed_over < epoch:
            self.hands_over_at_ms = now_ms + HANDOVER_PAUSE_MS * 2 ** min(self.returns, _RETURNS_MAX)
            self.returns += 1
            self.handed_over = -1
        role = partition.role
        if now_ms < self.hands_over_at_ms or not isinstance(role, LeaderRole) or not role.propose_handover():
            return False
        self.handed_over = epoch
        return True


class DamagedReplicas:
    """See the module's docstring. `run` must run, and `reconsider` is to be called when roles have changed."""

    def __init__(self) -> None:
        self.checks = DamageChecks(self.add)
        self.replicas: dict[Partition, DamagedReplica] = {}
        self._work = trio.Event()

    def add(self, partition: Partition, damage: Damage) -> None:
        """Record damage, so that it is not read as data any more, and have it repaired. Known damage is ignored."""
        log = partition.log
        if log is None or damage.end_offset <= log.log_start_offset:
            return
        if log.segments.add_damage(damage) or partition not in self.replicas:
            self.replicas.setdefault(partition, DamagedReplica(log, damage))
            partition.trace(
                "partition_damaged",
                topic=partition.topic,
                leader=partition.leader_id,
                first_offset=damage.first_offset,
                end_offset=damage.end_offset,
                path=damage.file,
                reason=damage.cause,
            )
            damaged = log.segments.damaged
            assert damaged is not None, "added above"
            self._begin(partition, damaged)
            self._work.set()

    def reconsider(self, partitions: Sequence[Partition]) -> None:
        """Roles have changed: go on with those of these partitions that are damaged.

        A new leader hands over at once, whatever is being repaired meanwhile.
        """
        for partition in partitions:
            damaged = self._damaged_of(partition)
            if damaged is not None and damaged.ranges:
                self._begin(partition, damaged)
            if partition in self.replicas:
                self._work.set()

    async def run(self, context: FetcherContext) -> None:
        """Hand over and repair until cancelled. Raises FsyncFailed, in an exception group."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.checks.run, context.env.disk)
            while True:
                with trio.move_on_after(RETRY_S) if self.replicas else trio.CancelScope():
                    await self._work.wait()
                self._work = trio.Event()
                for partition in list(self.replicas):
                    await self._handle(context, partition)

    async def _handle(self, context: FetcherContext, partition: Partition) -> None:
        damaged, log = self._damaged_of(partition), partition.log
        if log is None or damaged is None:
            del self.replicas[partition]  # the replica was removed, or begins again without records
            return
        damaged.keep(log.log_start_offset, log.log_end_offset)
        if damaged.ranges and not self._begin(partition, damaged):
            await self._repair(context, partition)
        if not damaged.ranges:
            log.segments.damaged = None
            del self.replicas[partition]
            _replay_repaired(context, partition, log)
            partition.trace("partition_repaired", topic=partition.topic, leader=partition.leader_id)
            partition.waiters.notify_readers(partition)

    def _damaged_of(self, partition: Partition) -> DamagedRanges | None:
        """The damage of a replica; None if its log was replaced or removed since, or begins again without records."""
        replica, log = self.replicas.get(partition), partition.log
        return None if replica is None or log is None or log is not replica.log else log.segments.damaged

    def _begin(self, partition: Partition, damaged: DamagedRanges) -> bool:
        """Do at once what can be done at once; returns whether this replica leads, so that it cannot repair itself."""
        replica = self.replicas[partition]
        damaged.error = ErrorCode.KAFKA_STORAGE_ERROR
        if not partition.leads:
            replica.remedy = f"this replica repairs itself from broker {partition.leader_id}, the leader"
            return False
        if replica.may_hand_over(partition):
            replica.remedy = "another replica in sync is asked to lead, and this one repairs itself then"
            return True
        damaged.error = ErrorCode.CORRUPT_MESSAGE
        remedy = _remedy_of_only_replica(partition, damaged)
        if replica.remedy != remedy:
            replica.remedy = remedy
            partition.trace("partition_damage_stays", topic=partition.topic, remedy=remedy)
        return True

    async def _repair(self, context: FetcherContext, partition: Partition) -> None:
        from broker.replication.segment_repair import RepairDeferred, RepairFailed, SegmentRepair  # for start-up time

        replica, began, failure = self.replicas[partition], trio.current_time(), ""
        leader_epoch = partition.leader_epoch
        if began < replica.retry_at and replica.failed_epoch == partition.leader_epoch:
            return
        try:
            await SegmentRepair.of(context, partition).run()
        except FsyncFailed:
            raise
        except RepairDeferred:
            return
        except RepairFailed as error:
            failure = str(error)
        except OSError as error:
            if lacks_resources(error) and replica.log.failure is None:
                failure = f"a copy of the segment cannot be written: {error}"
            elif partition.log is replica.log:  # otherwise its files were removed meanwhile
                context.log_failed(partition, error)
        if failure:
            now = trio.current_time()
            replica.failed_epoch = leader_epoch
            replica.retry_at = now + min((now - began) * _PAUSE_PER_WORK, _PAUSE_MAX_S)
            if failure != replica.failure:
                partition.trace("partition_repair_failed", topic=partition.topic, reason=failure)
        replica.failure = failure


def _replay_repaired(context: FetcherContext, partition: Partition, log: Log) -> None:
    """Load the states of producers of a follower again that its damaged batches were left out of."""
    try:
        if not partition.leads and replay_repaired(log):
            partition.move_high_watermark(log, partition.high_watermark)
    except FsyncFailed:
        raise
    except OSError as error:
        context.log_failed(partition, error)


def _remedy_of_only_replica(partition: Partition, damaged: DamagedRanges) -> str:
    first, end_offset = damaged.ranges[0], damaged.ranges[-1].end_offset
    log, name = partition.log, f"{partition.topic}:{partition.index}"
    intact = first.first_offset - (0 if log is None else log.log_start_offset)
    before = f", the intact offsets before the damage too ({intact} of them)" if intact > 0 else ""
    deletion = (
        f"`kraft topics trim {name} --before-offset {end_offset}` deletes the records up to there{before}; "
        "docs/damaged-files.md says how to lose the damaged segment alone"
    )
    if log is not None and log.config.compact_enabled:
        deletion = "docs/damaged-files.md says how to delete the segment"
    role = partition.role
    has_others = isinstance(role, LeaderRole) and bool(role.in_sync.followers)
    others = (
        "Start the brokers of the other replicas; if none has the records, " if has_others else "There is no other: "
    )
    return (
        f"no other replica is in sync, so this one leads on. Consumers stop at offset {first.first_offset}, and can go "
        f"on if they seek to offset {first.end_offset}. {others}{deletion}"
    )
