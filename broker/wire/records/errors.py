"""The errors of record batches, one class for each of Kafka's error codes."""

from collections.abc import Sequence

from broker.wire.errors import WireError
from kraft import lazy_attrs


class CorruptBatch(WireError):
    """The bytes are no intact batch: length, CRC, compression. Kafka's CORRUPT_MESSAGE; recovery cuts the log here."""


class TooLargeContent(CorruptBatch):
    """The batch may be intact, but it decompresses to more than the reader takes. Kafka has no such bound."""


class UnsupportedMagic(CorruptBatch):
    """A batch of the formats before v2 (magic 0 and 1), which Kafka 4.0 dropped (KIP-724).

    Producing one is answered INVALID_RECORD; one in a log directory means the log is too old to be opened.
    """


@lazy_attrs.frozen
class RecordError:
    """One rejected record, as Produce 8+ reports it (KIP-467): its index within the batch and why."""

    batch_index: int
    message: str


class InvalidRecord(WireError):
    """The batch is intact, but a producer may not write it so. Kafka's INVALID_RECORD.

    `record_errors` names the records at fault where single records are; empty where the batch as a whole is.
    """

    def __init__(self, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(message)
        self.record_errors = tuple(record_errors)


class InvalidTimestamp(InvalidRecord):
    """Some record's timestamp lies outside of what the topic accepts. Kafka's INVALID_TIMESTAMP."""
