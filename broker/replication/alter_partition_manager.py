"""Sends the ISR proposals of the partitions that this broker leads to the controller (AlterPartition, KIP-497)."""

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import trio

from broker.replication.in_sync_replicas import Proposal
from broker.replication.leader_role import LeaderRole
from broker.replication.partition import Partition
from broker.wire.api.alter_partition import (
    AlteredPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs

# With topic ids and broker epochs.
_VERSION: Final = 3
# The pause before a proposal is sent again that was refused for a temporary reason, as in Kafka.
RETRY_BACKOFF_MS: Final = 50
# Later proposals wait for the request in flight, and its proposals get old: give it up after this time.
REQUEST_TIMEOUT_MS: Final = 5_000


class Controllers(Protocol):
    """The way to the active controller."""

    async def call(self, request: Any, version: int, *, timeout_ms: float) -> Any:
        """Send a request and return the response. Raises KafkaError if no controller is reachable for `timeout_ms`."""
        ...


@lazy_attrs.frozen
class _Sent:
    """A proposal in flight."""

    leader: LeaderRole
    proposal: Proposal


class AlterPartitionManager:
    """Collects proposals and sends them together, one request at a time.

    `run` also looks for lagging followers, twice per replica.lag.time.max.ms, of the partitions that `leaders` returns.
    """

    def __init__(self, local_id: int, leaders: Callable[[], Iterable[LeaderRole]], *, lag_max_ms: float) -> None:
        self._local_id = local_id
        self._leaders = leaders
        self._lag_max_ms = lag_max_ms
        self._proposed: dict[Partition, None] = {}
        self._work = trio.Event()

    def propose(self, partition: Partition) -> None:
        """Send the partition's proposal with the next request."""
        self._proposed[partition] = None
        self._work.set()

    async def run(self, controllers: Controllers, broker_epoch: Callable[[], int]) -> None:
        """Send proposals until cancelled. `broker_epoch` returns the epoch of this broker's registration."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._shrink_periodically)
            while True:
                await self._work.wait()
                self._work = trio.Event()
                if await self._send(controllers, broker_epoch()):
                    await trio.sleep(RETRY_BACKOFF_MS / 1000)

    async def _shrink_periodically(self) -> None:
        while True:
            await trio.sleep(self._lag_max_ms / 2 / 1000)
            for leader in self._leaders():
                leader.propose_shrinking()

    async def _send(self, controllers: Controllers, broker_epoch: int) -> bool:
        """Send all proposals in one request; returns whether some must be sent again."""
        proposed, self._proposed = self._proposed, {}
        sent = [
            _Sent(leader, leader.in_sync.proposal)
            for leader in (partition.role for partition in proposed)
            if isinstance(leader, LeaderRole) and leader.in_sync.proposal is not None
        ]
        if not sent:
            return False
        try:
            request = self._request(sent, broker_epoch)
            response = await controllers.call(request, _VERSION, timeout_ms=REQUEST_TIMEOUT_MS)
        except KafkaError as error:
            return self._refuse(sent, error.code)
        return self._handle_response(sent, response)

    def _request(self, sent: Iterable[_Sent], own_epoch: int) -> AlterPartitionRequest:
        topics: dict[bytes, TopicData] = {}
        for one in sent:
            partition, in_sync = one.leader.partition, one.leader.in_sync
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

    def _handle_response(self, sent: Iterable[_Sent], response: AlterPartitionResponse) -> bool:
        if response.error_code:
            return self._refuse(sent, _code(response.error_code))
        answers = {
            (topic.topic_id, altered.partition_index): altered
            for topic in response.topics
            for altered in topic.partitions
        }
        must_retry = False
        for one in sent:
            altered = answers.get((one.leader.partition.topic_id, one.leader.partition.index))
            if altered is None:
                must_retry |= self._refuse([one], ErrorCode.UNKNOWN_SERVER_ERROR)
            elif altered.error_code:
                must_retry |= self._refuse([one], _code(altered.error_code))
            else:
                _accept(one, altered)
        return must_retry

    def _refuse(self, sent: Iterable[_Sent], code: ErrorCode) -> bool:
        must_retry = False
        for one in sent:
            partition = one.leader.partition
            partition.trace("isr_refused", error=code.name)
            if one.leader.proposal_refused(one.proposal, code):
                must_retry = True
                self.propose(partition)
        return must_retry


def _accept(one: _Sent, altered: AlteredPartition) -> None:
    one.leader.proposal_accepted(
        one.proposal,
        leader_epoch=altered.leader_epoch,
        partition_epoch=altered.partition_epoch,
        isr=altered.isr,
    )


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:  # an error code of a newer controller
        return ErrorCode.UNKNOWN_SERVER_ERROR
