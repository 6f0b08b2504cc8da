"""The requests of producers and of those who watch them."""

from typing import Any, Final

import attrs

from broker.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from broker.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from broker.wire.api.describe_producers import DescribeProducersRequest, TopicRequest
from broker.wire.api.describe_transactions import DescribeTransactionsRequest
from broker.wire.api.end_txn import EndTxnRequest
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.api.init_producer_id import InitProducerIdRequest
from broker.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.wire.api.list_transactions import ListTransactionsRequest
from broker.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from broker.wire.records import Record, encode_batch
from tests.differential import sequences
from tests.differential.families.transactions.producers import Place as SequencePlace
from tests.differential.families.transactions.producers import Producers, Who

# The topic of each sequence, and its partitions; a name and partitions that do not exist.
TOPIC: Final = "t"
PARTITIONS: Final = 2
ABSENT: Final = "absent"
# The first version that names topics by id.
_PRODUCE_BY_ID: Final = 13
# The first version that brokers send.
_BROKERS_ADD_FROM: Final = 4
_BUMPS_FROM: Final = 5
_TIMESTAMP_MS: Final = 1_700_000_000_000

# The transactional ids of the producers, by their numbers: two share one, and the last has none. Where a request
# needs one, the last one has a name that no producer is initialized with.
IDS: Final = ("a", "a", "b", None)
_NAME_FOR_NONE: Final = "none"


def _of(place: sequences.Place) -> Producers:
    state: Producers = place.state
    return state


@attrs.frozen(kw_only=True)
class _Request(sequences.Step):
    """A request of a producer. `name` replaces its own transactional id."""

    producer: int
    version: int
    who: Who = Who.OWN
    name: str | None = "own"

    def transactional_id(self, place: sequences.Place) -> str | None:
        name = IDS[self.producer] if self.name == "own" else self.name
        return None if name is None else place.named(name)

    def required_transactional_id(self, place: sequences.Place) -> str:
        name = self.transactional_id(place)
        return place.named(_NAME_FOR_NONE) if name is None else name

    def identity(self, place: sequences.Place) -> tuple[int, int]:
        return _of(place).identity(self.producer, self.who)


@attrs.frozen(kw_only=True)
class Init(_Request):
    who: Who = Who.NONE
    timeout_ms: int = 60_000

    def request(self, place: sequences.Place) -> tuple[Any, int]:
        producer_id, epoch = self.identity(place)
        message = InitProducerIdRequest(
            transactional_id=self.transactional_id(place),
            transaction_timeout_ms=self.timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        return message, self.version

    def observe(self, place: sequences.Place, response: Any) -> None:
        _of(place).is_ending = True
        if not response.error_code:
            _of(place).set_identity(self.producer, (response.producer_id, response.producer_epoch))


@attrs.frozen(kw_only=True)
class AddPartitions(_Request):
    """`partitions` are pairs of a suffix and a number. Brokers may only ask (`is_verification`)."""

    partitions: tuple[tuple[str, int], ...]
    is_verification: bool = False

    def request(self, place: sequences.Place) -> tuple[Any, int]:
        producer_id, epoch = self.identity(place)
        topics: dict[str, list[int]] = {}
        for suffix, index in self.partitions:
            topics.setdefault(place.named(suffix), []).append(index)
        listed = [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()]
        if self.version < _BROKERS_ADD_FROM:
            message = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.required_transactional_id(place),
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=listed,
            )
        else:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=self.required_transactional_id(place),
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=self.is_verification,
                topics=listed,
            )
            message = AddPartitionsToTxnRequest(transactions=[transaction])
        return message, self.version


@attrs.frozen(kw_only=True)
class AddOffsets(_Request):
    group: str = "g"

    def request(self, place: sequences.Place) -> tuple[Any, int]:
        producer_id, epoch = self.identity(place)
        message = AddOffsetsToTxnRequest(
            transactional_id=self.required_transactional_id(place),
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=place.named(self.group),
        )
        return message, self.version


@attrs.frozen(kw_only=True)
class CommitOffsets(_Request):
    offset: int
    group: str = "g"
    partitions: tuple[tuple[str, int], ...] = ((TOPIC, 0),)
    generation: int = -1
    member: str = ""
    metadata: str | None = "m"

    def request(self, place: sequences.Place) -> tuple[Any, int]:
        producer_id, epoch = self.identity(place)
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for suffix, index in self.partitions:
            topics.setdefault(place.named(suffix), []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=index, committed_offset=self.offset, committed_metadata=self.metadata
                )
            )
        message = TxnOffsetCommitRequest(
            transactional_id=self.required_transactional_id(place),
            group_id=place.named(self.group),
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=listed) for name, listed in topics.items()],
        )
        return message, self.version


@attrs.frozen(kw_only=True)
class End(_Request):
    is_commit: bool

    def request(self, place: sequences.Place) -> tuple[Any, int]:
        producer_id, epoch = self.identity(place)
        message = EndTxnRequest(
            transactional_id=self.required_transactional_id(place),
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=self.is_commit,
        )
        return message, self.version

    def observe(self, place: sequences.Place, response: Any) -> None:
        _of(place).is_ending = True
        if not response.error_code and self.version >= _BUMPS_FROM:
            _of(place).set_identity(self.producer, (response.producer_id, response.producer_epoch))


@attrs.frozen(kw_only=True)
class Produce(_Request):
    """A batch of `count` records. `is_transactional` is the batch's flag."""

    is_transactional: bool
    partition: int = 0
    topic: str = TOPIC
    sequence: SequencePlace = SequencePlace.NEXT
    count: int = 1
    acks: int = -1

    def request(self, place: sequences.Place) -> tuple[Any, int]:
        producer_id, epoch = self.identity(place)
        base = self._base_sequence(place)
        values = [f"{self.producer}/{epoch}/{base + at}".encode() for at in range(self.count)]
        batch = encode_batch(
            [Record(timestamp=_TIMESTAMP_MS + at, value=value) for at, value in enumerate(values)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=base,
            transactional=self.is_transactional,
        )
        name = place.named(self.topic)
        topic = TopicProduceData(partition_data=[PartitionProduceData(index=self.partition, records=batch)])
        if self.version < _PRODUCE_BY_ID:
            topic.name = name
        else:
            topic.topic_id = place.topic_ids.get(name, b"absent".ljust(16, b"."))
        message = ProduceRequest(
            transactional_id=self.transactional_id(place), acks=self.acks, timeout_ms=10_000, topic_data=[topic]
        )
        return message, self.version

    def observe(self, place: sequences.Place, response: Any) -> None:
        codes = [each.error_code for topic in response.responses for each in topic.partition_responses]
        if codes == [0] and self.sequence is not SequencePlace.DUPLICATE:
            _of(place).produced(self.producer, self.partition, self._base_sequence(place), self.count)

    def _base_sequence(self, place: sequences.Place) -> int:
        return _of(place).sequence(self.producer, self.partition, self.sequence)


# Readers


@attrs.frozen(kw_only=True)
class DescribeTransactions(sequences.Step):
    names: tuple[str, ...] = ("a", "b")

    def request(self, place: sequences.Place) -> tuple[Any, int]:
        return DescribeTransactionsRequest(transactional_ids=list(map(place.named, self.names))), 0


@attrs.frozen(kw_only=True)
class ListTransactions(sequences.Step):
    """Lists the transactions of this sequence, by `producer` or by name. `min_open_ms` is the duration filter."""

    states: tuple[str, ...] = ()
    producer: int | None = None
    min_open_ms: int = -1

    def request(self, place: sequences.Place) -> tuple[Any, int]:
        ids = [] if self.producer is None else [_of(place).identity(self.producer, Who.OWN)[0]]
        message = ListTransactionsRequest(
            state_filters=list(self.states),
            producer_id_filters=ids,
            duration_filter=self.min_open_ms,
            transactional_id_pattern=f"{place.name}-.*",
        )
        return message, 2


@attrs.frozen(kw_only=True)
class DescribeProducers(sequences.Step):
    topic: str = TOPIC
    partitions: tuple[int, ...] = tuple(range(PARTITIONS))

    def request(self, place: sequences.Place) -> tuple[Any, int]:
        topic = TopicRequest(name=place.named(self.topic), partition_indexes=list(self.partitions))
        return DescribeProducersRequest(topics=[topic]), 0


@attrs.frozen(kw_only=True)
class ListOffsets(sequences.Step):
    timestamp: int
    is_committed: bool

    def request(self, place: sequences.Place) -> tuple[Any, int]:
        partitions = [
            ListOffsetsPartition(partition_index=index, timestamp=self.timestamp) for index in range(PARTITIONS)
        ]
        topic = ListOffsetsTopic(name=place.named(TOPIC), partitions=partitions)
        return ListOffsetsRequest(replica_id=-1, isolation_level=self.is_committed, topics=[topic]), 7


@attrs.frozen(kw_only=True)
class Fetch(sequences.Step):
    """All records of the topic, without waiting and outside of a session."""

    is_committed: bool
    offset: int = 0

    def request(self, place: sequences.Place) -> tuple[Any, int]:
        partitions = [
            FetchPartition(partition=index, fetch_offset=self.offset, partition_max_bytes=1 << 20)
            for index in range(PARTITIONS)
        ]
        topic = FetchTopic(topic=place.named(TOPIC), partitions=partitions)
        return FetchRequest(isolation_level=self.is_committed, topics=[topic]), 12


@attrs.frozen(kw_only=True)
class FetchOffsets(sequences.Step):
    require_stable: bool
    group: str = "g"

    def request(self, place: sequences.Place) -> tuple[Any, int]:
        topic = OffsetFetchRequestTopics(name=place.named(TOPIC), partition_indexes=list(range(PARTITIONS)))
        group = OffsetFetchRequestGroup(group_id=place.named(self.group), topics=[topic])
        return OffsetFetchRequest(groups=[group], require_stable=self.require_stable), 9
