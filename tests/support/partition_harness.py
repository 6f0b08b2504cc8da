"""One partition whose clock, followers and metadata are controlled by a test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from broker.replication.follower_role import FollowerRole
from broker.replication.in_sync_replicas import Proposal
from broker.replication.leader_role import LeaderRole
from broker.replication.partition import Partition
from broker.replication.partition_context import PartitionContext, PartitionTasks
from broker.replication.role_changes import apply_image
from broker.wire.errors import ErrorCode
from kraft.env import Disk
from metadata.image import BrokerImage, PartitionImage
from tests.support.logs import NOW_MS, batch, no_trace, open_log

LOCAL, A, B = 1, 2, 3
ALL = (LOCAL, A, B)


class Waiting:
    """A waiting Produce or Fetch request."""

    def __init__(self) -> None:
        self.results: list[ErrorCode] = []
        self.notified = 0

    def complete(self, code: ErrorCode) -> None:
        self.results.append(code)

    def try_complete(self, partition: Partition) -> None:
        self.notified += 1


class Harness:
    """The context of one partition: the test sets the clock, and reads proposals and pending flushes."""

    def __init__(self, directory: Path, trace: Callable[..., None] = no_trace, *, disk: Disk | None = None) -> None:
        self.now_ms = 0.0
        self.fenced: tuple[int, ...] = ()
        self.proposed = 0
        self.to_flush: list[Partition] = []
        self.checked: list[int] = []  # the offsets at which damage was looked for
        self.partition = Partition(
            "topic",
            b"id".ljust(16),
            0,
            open_log(directory / "topic-0", disk=disk),
            PartitionContext(
                local_id=LOCAL,
                lag_max_ms=1_000,
                now_ms=lambda: self.now_ms,
                broker=self._broker,
                trace=trace,
            ),
            PartitionTasks(
                propose_isr=lambda partition: self._propose(),
                flush=self.to_flush.append,
                check_log=lambda partition, offset: self.checked.append(offset),
                check_old=lambda partition, offset: None,
            ),
        )

    def _propose(self) -> None:
        self.proposed += 1

    def _broker(self, broker_id: int) -> BrokerImage:
        return BrokerImage(broker_id, 7, b"", {}, {}, None, broker_id in self.fenced, False, ())

    def become(self, *, epoch: int = 0, version: int = 0, **changes: Any) -> None:
        """Apply metadata: by default, this broker leads in this leader epoch, and all replicas are in sync."""
        image = PartitionImage(ALL, ALL, LOCAL, epoch, version)
        apply_image(self.partition, attrs.evolve(image, **changes))

    def append(self, count: int = 1) -> Waiting:
        """Append a batch of `count` records as a producer with acks=all, which waits for the last of them."""
        producer = Waiting()
        info = self.partition.role.append(batch(*[b"value"] * count), -1, NOW_MS)
        assert self.partition.log is not None
        acknowledgements = self.partition.role.awaits(-1, info.last_offset + 1)
        if acknowledgements is None:
            producer.complete(ErrorCode.NONE)
        else:
            acknowledgements.add(producer, info.last_offset + 1)
        self.partition.log.commit()
        self.partition.log_appended()
        return producer

    def fetch(self, broker_id: int, offset: int, broker_epoch: int = 7) -> None:
        leader = self.leader
        leader.follower_fetched(
            leader.find_follower(broker_id, broker_epoch, self.partition.leader_epoch),
            broker_epoch=broker_epoch,
            fetch_offset=offset,
            log_start_offset=0,
        )

    @property
    def leader(self) -> LeaderRole:
        assert isinstance(self.partition.role, LeaderRole)
        return self.partition.role

    @property
    def follower(self) -> FollowerRole:
        assert isinstance(self.partition.role, FollowerRole)
        return self.partition.role

    @property
    def proposal(self) -> Proposal:
        assert self.leader.in_sync.proposal is not None
        return self.leader.in_sync.proposal

    @property
    def isr(self) -> tuple[int, ...]:
        return self.leader.in_sync.isr
