"""A share session with one broker: it acquires records of the partitions that the broker leads, and acknowledges them.

It records each answer with the leader epoch in which it was given, if that is known.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
import trio

from broker.client import ConnectionLost
from broker.wire.api.fetch import PartitionData as FetchedPartition
from broker.wire.api.share_acknowledge import AcknowledgementBatch as SeparateBatch
from broker.wire.api.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from broker.wire.api.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from broker.wire.errors import ErrorCode
from jepsen.history import Operation
from jepsen.share_values import UNKNOWN_EPOCH, Acknowledging, Acquired, Acquiring
from jepsen.workloads.client import Client
from jepsen.workloads.connection import Address
from jepsen.workloads.consumer import Corrupt, records_of
from metadata.protocol import AcknowledgeType

TopicPartition: TypeAlias = tuple[str, int]
# First offset, last offset and type.
Batch: TypeAlias = tuple[int, int, AcknowledgeType]

_VERSION: Final = 2
_WAIT_MS: Final = 300
_MAX_BYTES: Final = 1 << 20
# With these errors, no acknowledgement of the partition has taken effect.
_REFUSALS: Final = (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
# With these errors, the broker has not looked at the request's records at all.
_NO_SESSION: Final = (
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ErrorCode.UNSUPPORTED_VERSION,
)


class SessionLost(Exception):
    """The broker does not know the share session."""


@attrs.define(eq=False)
class ShareGroup:
    """A share group that consumes all partitions of `topics`, which maps names to numbers of partitions.

    `leader_epochs` returns the epochs in which the client's server leads partitions, according to itself. Partitions
    without a known epoch are left out. It may raise ConnectionLost.
    """

    name: str
    topics: Mapping[str, int]
    topic_ids: Mapping[str, bytes]
    leader_epochs: Callable[[Client, Collection[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]]
    batch_optimized: bool = True

    def topic_of(self, topic_id: bytes) -> str:
        return next(name for name, each in self.topic_ids.items() if each == topic_id)


@attrs.frozen
class HeldRecord:
    """A record that a member has acquired. Its lock may be over from `locked_until` on, in seconds."""

    value: str
    delivery_count: int
    locked_until: float


class ShareSession:
    """See the module's docstring. `held` are the records of each partition that were not acknowledged yet, by offset.

    `stale` are partitions that this broker does not lead any more. No method may be called after `SessionLost` or
    ConnectionLost: the records that were held may be anyone's.
    """

    def __init__(self, client: Client, group: ShareGroup, member_id: str, address: Address, name: str) -> None:
        self.address = address
        self.held: dict[TopicPartition, dict[int, HeldRecord]] = {}
        self.stale: list[TopicPartition] = []
        self._client = attrs.evolve(client)
        self._group = group
        self._member_id = member_id
        self._name = name
        self._epoch = 0
        self._partitions: dict[TopicPartition, None] = {}

    async def aclose(self) -> None:
        """Close the connection; the broker then ends the session."""
        await self._client.aclose()

    @property
    def is_open(self) -> bool:
        return self._epoch > 0

    @property
    def holds_records(self) -> bool:
        return any(self.held.values())

    async def fetch(
        self, wanted: Sequence[TopicPartition], batches: Mapping[TopicPartition, Sequence[Batch]], records_max: int
    ) -> None:
        """Acquire records of these partitions, and acknowledge others. Raises ConnectionLost, SessionLost."""
        before = await self._epochs(dict.fromkeys((*wanted, *batches)))
        acquiring = {each: self._invoke("acquire", Acquiring(*self._ids, *each)) for each in wanted}
        acknowledging = self._invoke_acknowledgements(batches)
        request = self._fetch_request(wanted, batches, records_max)
        began = trio.current_time()
        response = await self._call(request, [*acquiring.values(), *acknowledging.values()])
        epochs = await self._certain_epochs(before)
        self._partitions = dict.fromkeys(wanted)
        answers = {
            (self._group.topic_of(topic.topic_id), each.partition_index): each
            for topic in response.responses
            for each in topic.partitions
        }
        for partition, operation in acknowledging.items():
            code = ErrorCode(answers[partition].acknowledge_error_code) if partition in answers else None
            self._acknowledged(operation, partition, epochs, code)
        for partition, operation in acquiring.items():
            locked_until = began + response.acquisition_lock_timeout_ms / 1000
            lock_ms = response.acquisition_lock_timeout_ms
            self._acquired(operation, partition, epochs, answers.get(partition), locked_until, lock_ms)

    def _fetch_request(
        self, wanted: Sequence[TopicPartition], batches: Mapping[TopicPartition, Sequence[Batch]], records_max: int
    ) -> ShareFetchRequest:
        """A request that changes the partitions of the session to the wanted ones."""
        added = [each for each in wanted if each not in self._partitions]
        gone = [each for each in self._partitions if each not in wanted]
        return ShareFetchRequest(
            group_id=self._group.name,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            max_records=records_max,
            batch_size=records_max,
            share_acquire_mode=0 if self._group.batch_optimized else 1,
            topics=self._topics_to_fetch(added, batches),
            forgotten_topics_data=[
                ForgottenTopic(topic_id=self._group.topic_ids[topic], partitions=[index]) for topic, index in gone
            ],
        )

    async def acknowledge(
        self, batches: Mapping[TopicPartition, Sequence[Batch]], *, renews: bool = False, ends: bool = False
    ) -> None:
        """Acknowledge records, and end the session if it `ends`. Raises ConnectionLost, SessionLost."""
        before = await self._epochs(batches)
        acknowledging = self._invoke_acknowledgements(batches)
        request = ShareAcknowledgeRequest(
            group_id=self._group.name,
            member_id=self._member_id,
            share_session_epoch=-1 if ends else self._epoch,
            is_renew_ack=renews,
            topics=self._topics_to_acknowledge(batches),
        )
        began = trio.current_time()
        response = await self._call(request, [*acknowledging.values()])
        epochs = await self._certain_epochs(before)
        for topic in response.responses:
            for each in topic.partitions:
                partition = self._group.topic_of(topic.topic_id), each.partition_index
                code = ErrorCode(each.error_code)
                self._acknowledged(acknowledging[partition], partition, epochs, code)
                if code is ErrorCode.NONE:
                    self._renewed(partition, batches[partition], began + response.acquisition_lock_timeout_ms / 1000)

    def _renewed(self, partition: TopicPartition, batches: Sequence[Batch], locked_until: float) -> None:
        held = self.held.get(partition, {})
        for first, last, kind in batches:
            for offset in range(first, last + 1) if kind is AcknowledgeType.RENEW else ():
                held[offset] = attrs.evolve(held[offset], locked_until=locked_until)

    @property
    def _ids(self) -> tuple[str, str, str]:
        return self._group.name, self._member_id, self._name

    def _invoke(self, function: str, value: object) -> Operation:
        return self._client.history.invoke(self._client.name, function, value)

    def _invoke_acknowledgements(
        self, batches: Mapping[TopicPartition, Sequence[Batch]]
    ) -> dict[TopicPartition, Operation]:
        """Record acknowledgements. Those records are no longer held, apart from renewed ones."""
        operations = {}
        for partition, its in batches.items():
            value = Acknowledging(*self._ids, *partition, tuple((first, last, int(kind)) for first, last, kind in its))
            operations[partition] = self._invoke("acknowledge", value)
            for first, last, kind in its:
                for offset in range(first, last + 1) if kind is not AcknowledgeType.RENEW else ():
                    self.held.get(partition, {}).pop(offset, None)
        return operations

    def _topics_to_acknowledge(self, batches: Mapping[TopicPartition, Sequence[Batch]]) -> list[AcknowledgeTopic]:
        return [
            AcknowledgeTopic(
                topic_id=self._group.topic_ids[topic],
                partitions=[
                    AcknowledgePartition(
                        partition_index=index,
                        acknowledgement_batches=list(_as(SeparateBatch, batches[topic, index])),
                    )
                    for _, index in partitions
                ],
            )
            for topic, partitions in _by_topic(batches)
        ]

    def _topics_to_fetch(
        self, added: Sequence[TopicPartition], batches: Mapping[TopicPartition, Sequence[Batch]]
    ) -> list[FetchTopic]:
        named = dict.fromkeys((*added, *batches))
        return [
            FetchTopic(
                topic_id=self._group.topic_ids[topic],
                partitions=[
                    FetchPartition(
                        partition_index=index,
                        acknowledgement_batches=list(_as(AcknowledgementBatch, batches.get((topic, index), ()))),
                    )
                    for _, index in partitions
                ],
            )
            for topic, partitions in _by_topic(named)
        ]

    async def _call(self, request: Any, operations: Sequence[Operation]) -> Any:
        """Send the next request of the session. Raises ConnectionLost, SessionLost."""
        history = self._client.history
        try:
            await self._seek()
            async with self._client.connected() as connection:
                response = await connection.call(request, _VERSION)
        except ConnectionLost as error:
            for operation in operations:
                history.info(operation, str(error))
            raise
        if response.error_code:
            code = ErrorCode(response.error_code)
            end = history.fail if code in _NO_SESSION else history.info
            for operation in operations:
                end(operation, code.name)
            await self.aclose()
            raise SessionLost(code.name)
        self._epoch += 1
        return response

    async def _seek(self) -> None:
        """Have the first request connect to the broker. Raises ConnectionLost if the session's connection is lost."""
        if not self._client.is_connected:
            if self._epoch:
                raise ConnectionLost("the session has ended with its connection")
            await self._client.seek(self.address)

    async def _epochs(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The leader epochs before a request. Raises ConnectionLost."""
        await self._seek()
        return await self._group.leader_epochs(self._client, partitions)

    async def _certain_epochs(self, before: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """The leader epochs that were the same before the request and after the response."""
        try:
            after = await self._group.leader_epochs(self._client, before) if before else {}
        except ConnectionLost:
            return {}  # the next request of the session finds this out as well
        return {each: epoch for each, epoch in before.items() if after.get(each) == epoch}

    def _acknowledged(
        self,
        operation: Operation,
        partition: TopicPartition,
        epochs: Mapping[TopicPartition, int],
        code: ErrorCode | None,
    ) -> None:
        history = self._client.history
        if code is None:
            history.info(operation, "no answer for the partition")
        elif code is ErrorCode.NONE:
            history.ok(operation, epochs.get(partition, UNKNOWN_EPOCH))
        elif code in _REFUSALS:
            history.fail(operation, code.name)
        else:
            history.info(operation, code.name)
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._lose(partition)

    def _acquired(
        self,
        operation: Operation,
        partition: TopicPartition,
        epochs: Mapping[TopicPartition, int],
        answer: Any,
        locked_until: float,
        lock_ms: int,
    ) -> None:
        """Record the answer for a partition, which is None without records."""
        history = self._client.history
        if answer is not None and answer.error_code:
            # Records may have been acquired before the error.
            history.info(operation, ErrorCode(answer.error_code).name)
            self._lose(partition)
            return
        try:
            records = tuple(_acquired_records(answer)) if answer is not None else ()
        except Corrupt as error:
            history.fail(operation, str(error))
            return
        history.ok(operation, Acquired(records, lock_ms, epochs.get(partition, UNKNOWN_EPOCH)))
        held = self.held.setdefault(partition, {})
        for offset, value, count in records:
            held[offset] = HeldRecord(value, count, locked_until)

    def _lose(self, partition: TopicPartition) -> None:
        self.held.pop(partition, None)
        self.stale.append(partition)


def _acquired_records(answer: Any) -> Iterator[tuple[int, str, int]]:
    """Offset, value and delivery count of each acquired record. Raises Corrupt."""
    records = records_of(FetchedPartition(records=answer.records), 0)
    for acquired in answer.acquired_records:
        for offset, value in records:
            if acquired.first_offset <= offset <= acquired.last_offset:
                yield offset, value, acquired.delivery_count


def _as(batch_class: Callable[..., Any], batches: Sequence[Batch]) -> Iterator[Any]:
    for first, last, kind in batches:
        yield batch_class(first_offset=first, last_offset=last, acknowledge_types=[int(kind)])


def _by_topic(partitions: Mapping[TopicPartition, Any]) -> list[tuple[str, list[TopicPartition]]]:
    topics: dict[str, list[TopicPartition]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition[0], []).append(partition)
    return list(topics.items())
