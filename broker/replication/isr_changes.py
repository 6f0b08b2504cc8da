"""Brings to the controller whom the leaders on this broker take for in sync, and its answers back (KIP-497)."""

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import attrs
import trio

from broker.replication.in_sync import Proposal
from broker.replication.leading import proposal_accepted, proposal_refused, propose_shrinking
from broker.replication.partition import Partition
from broker.wire.api.alter_partition import (
    AlteredPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from broker.wire.errors import ErrorCode
from metadata.errors import ApiError

# By id, and with the epochs of the brokers.
_VERSION: Final = 3
# Before what was refused for a reason that may pass is asked for again, as in Kafka.
RETRY_BACKOFF_MS: Final = 50
# What is proposed meanwhile waits, and what was proposed grows old: do not insist for longer on one request.
REQUEST_TIMEOUT_MS: Final = 5_000


class Controllers(Protocol):
    """The way to the active controller."""

    async def call(self, request: Any, version: int, *, timeout_ms: float) -> Any:
        """Its response. Raises ApiError where none is in reach for so long."""
        ...


@attrs.frozen
class _Asked:
    """A proposal that is on its way."""

    partition: Partition
    proposal: Proposal


class IsrChanges:
    """Collects proposals and sends them together, one request at a time.

    `run` also looks for followers that lag, each half of replica.lag.time.max.ms; `led` are the partitions to look at.
    """

    def __init__(self, local_id: int, led: Callable[[], Iterable[Partition]], *, lag_max_ms: float) -> None:
        self._local_id = local_id
        self._led = led
        self._lag_max_ms = lag_max_ms
        self._proposed: dict[Partition, None] = {}
        self._work = trio.Event()

    def propose(self, partition: Partition) -> None:
        """The partition has a proposal; it goes with the next request."""
        self._proposed[partition] = None
        self._work.set()

    async def run(self, controllers: Controllers, broker_epoch: Callable[[], int]) -> None:
        """`broker_epoch` is that under which this broker is registered."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look_for_lag)
            while True:
                await self._work.wait()
                self._work = trio.Event()
                if await self._bring(controllers, broker_epoch()):
                    await trio.sleep(RETRY_BACKOFF_MS / 1000)

    async def _look_for_lag(self) -> None:
        while True:
            await trio.sleep(self._lag_max_ms / 2 / 1000)
            for partition in self._led():
                propose_shrinking(partition)

    async def _bring(self, controllers: Controllers, broker_epoch: int) -> bool:
        """Ask once for what is proposed; whether some of it is to be asked for again."""
        proposed, self._proposed = self._proposed, {}
        asked = [
            _Asked(partition, partition.in_sync.proposal)
            for partition in proposed
            if partition.in_sync is not None and partition.in_sync.proposal is not None
        ]
        if not asked:
            return False
        try:
            request = self._request(asked, broker_epoch)
            response = await controllers.call(request, _VERSION, timeout_ms=REQUEST_TIMEOUT_MS)
        except ApiError as error:
            return self._refuse(asked, ErrorCode[error.name])
        return self._answer(asked, response)

    def _request(self, asked: Iterable[_Asked], own_epoch: int) -> AlterPartitionRequest:
        topics: dict[bytes, TopicData] = {}
        for one in asked:
            partition, in_sync = one.partition, one.partition.in_sync
            assert in_sync is not None, "nothing has happened since it was seen to be there"
            topic = topics.setdefault(partition.topic_id, TopicData(topic_id=partition.topic_id))
            isr = [
                BrokerState(
                    broker_id=broker_id,
                    broker_epoch=own_epoch if broker_id == self._local_id else in_sync.broker_epoch(broker_id),
                )
                for broker_id in one.proposal.isr
            ]
            topic.partitions.append(
                PartitionData(
                    partition_index=partition.index,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    new_isr_with_epochs=isr,
                )
            )
        return AlterPartitionRequest(broker_id=self._local_id, broker_epoch=own_epoch, topics=list(topics.values()))

    def _answer(self, asked: Iterable[_Asked], response: AlterPartitionResponse) -> bool:
        if response.error_code:
            return self._refuse(asked, _code(response.error_code))
        answers = {
            (topic.topic_id, altered.partition_index): altered
            for topic in response.topics
            for altered in topic.partitions
        }
        is_to_repeat = False
        for one in asked:
            altered = answers.get((one.partition.topic_id, one.partition.index))
            if altered is None:
                is_to_repeat |= self._refuse([one], ErrorCode.UNKNOWN_SERVER_ERROR)
            elif altered.error_code:
                is_to_repeat |= self._refuse([one], _code(altered.error_code))
            else:
                _accept(one, altered)
        return is_to_repeat

    def _refuse(self, asked: Iterable[_Asked], code: ErrorCode) -> bool:
        is_to_repeat = False
        for one in asked:
            one.partition.trace("isr_refused", error=code.name)
            if proposal_refused(one.partition, one.proposal, code):
                is_to_repeat = True
                self.propose(one.partition)
        return is_to_repeat


def _accept(one: _Asked, altered: AlteredPartition) -> None:
    proposal_accepted(
        one.partition,
        one.proposal,
        leader_epoch=altered.leader_epoch,
        partition_epoch=altered.partition_epoch,
        isr=altered.isr,
    )


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:  # of a controller that is newer than this
        return ErrorCode.UNKNOWN_SERVER_ERROR
