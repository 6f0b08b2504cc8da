"""Batches of records, right and wrong ones, and the requests that append them."""

from enum import Enum
from typing import Any, Final

import attrs

from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.records import Compression, Record, encode_batch
from tests.differential.families.records.readers import TopicId, label_topics, topic_id
from tests.differential.sequences import Place, Step

TIMESTAMP_MS: Final = 1_700_000_000_000
# Messages of errors are not compared.
SOME_MESSAGE: Final = "message"
_BY_ID_FROM: Final = 13
_CRC_POSITION: Final = 17
_MAGIC_POSITION: Final = 16


class Flaw(Enum):
    """A fault in the records of a request.

    Kafka does not respond to null records, so there are none. The largest timestamp is never wrong in compressed
    batches: Kafka decompresses them to find it, and our node takes it from the header.
    """

    NO_BYTES = "no bytes"
    CUT = "cut"
    WRONG_CRC = "wrong crc"
    WRONG_MAGIC = "wrong magic"
    WRONG_COUNT = "wrong count"
    WRONG_MAX_TIMESTAMP = "wrong max timestamp"
    NO_RECORDS = "no records"
    CONTROL = "control"
    LATER_OFFSETS = "later offsets"
    TWICE = "twice"
    TRAILING_BYTES = "trailing bytes"


@attrs.frozen(kw_only=True)
class Append(Step):
    """A batch of records with these times, of a producer without an id."""

    version: int
    timestamps: tuple[int, ...]
    topic: str = "t"
    topic_id: TopicId = TopicId.CURRENT
    partition: int = 0
    acks: int = -1
    has_keys: bool = False
    size: int = 0
    compression: Compression = Compression.NONE
    flaw: Flaw | None = None

    def request(self, place: Place) -> tuple[Any, int]:
        topic = TopicProduceData(partition_data=[PartitionProduceData(index=self.partition, records=self._data())])
        if self.version < _BY_ID_FROM:
            topic.name = place.named(self.topic)
        else:
            topic.topic_id = topic_id(place, self.topic, self.topic_id)
        return ProduceRequest(acks=self.acks, timeout_ms=10_000, topic_data=[topic]), self.version

    def comparable(self, place: Place, response: Any) -> Any:
        for topic in response.responses:
            for each in topic.partition_responses:
                each.error_message = each.error_message and SOME_MESSAGE
                for error in each.record_errors:
                    error.batch_index_error_message = error.batch_index_error_message and SOME_MESSAGE
        label_topics(place)
        return super().comparable(place, response)

    def _data(self) -> Any:
        if self.flaw is Flaw.NO_BYTES:
            return b""
        batch = bytearray(self._batch())
        if self.flaw is Flaw.CUT:
            del batch[-3:]
        elif self.flaw is Flaw.WRONG_CRC:
            batch[_CRC_POSITION] ^= 1
        elif self.flaw is Flaw.WRONG_MAGIC:
            batch[_MAGIC_POSITION] = 3
        elif self.flaw is Flaw.TWICE:
            batch += bytes(batch)
        elif self.flaw is Flaw.TRAILING_BYTES:
            batch += b"12345"
        return memoryview(bytes(batch))

    def _batch(self) -> bytes:
        values = [f"{at}".encode().ljust(self.size, b".") for at in range(len(self.timestamps))]
        records = [
            Record(timestamp=timestamp, key=b"k" if self.has_keys else None, value=value)
            for timestamp, value in zip(self.timestamps, values, strict=True)
        ]
        first = 5 if self.flaw is Flaw.LATER_OFFSETS else None
        count = len(records)
        return encode_batch(
            [] if self.flaw is Flaw.NO_RECORDS else records,
            base_offset=first,
            last_offset=count if self.flaw is Flaw.WRONG_COUNT else None,
            compression=self.compression,
            max_timestamp=TIMESTAMP_MS + 77 if self.flaw is Flaw.WRONG_MAX_TIMESTAMP else None,
            control=self.flaw is Flaw.CONTROL,
        )
