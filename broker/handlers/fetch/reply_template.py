"""Templates of Fetch responses with the records of one partition, which fill in the fields that change."""

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

from broker.handlers.partition_shortcut import LOG_START_OFFSET_FROM, around_fields
from broker.net.reply import FileRange, Part
from broker.replication.commit_state import READ_COMMITTED
from broker.server.context import BrokerContext
from broker.storage.log import LogSlice
from broker.wire.api.fetch import FetchableTopicResponse, FetchResponse, FetchTopic, PartitionData
from broker.wire.varint import encode_varint

# Records up to this size are read at once: one buffer and one send for the whole reply.
READ_NOW_MAX: Final = 16 * 1024
# Values that occur nowhere else in a reply, to find out where the codec puts a field.
_HIGH_WATERMARK: Final = 0x5A17314F << 24
_STABLE_OFFSET: Final = 0x5A175741 << 24
_LOG_START: Final = 0x5A175247 << 24

# (correlation id, size of the records, (high watermark, last stable offset, log start offset)) -> head and tail
Template: TypeAlias = Callable[[int, int, tuple[int, int, int]], tuple[bytes, bytes]]


def read_small(records: LogSlice) -> bytes | None:
    """The records if they are few; None if they are sent from the file. Raises OSError."""
    if records.size > READ_NOW_MAX:
        return None
    data = records.file.read(records.position, records.size)
    if len(data) != records.size:
        raise OSError(f"the file ends before {records.size} bytes at {records.position}")
    return data


def reply_with(around: tuple[bytes, bytes], records: LogSlice, data: bytes | None) -> bytes | list[Part]:
    """The whole response: head and tail of a template around the records, which are `data` if that is not None."""
    head, tail = around
    if data is not None:
        return b"".join((head, data, tail))
    return [head, FileRange(records.file, records.position, records.size), *((tail,) if tail else ())]


def reply_template(context: BrokerContext, topic: FetchTopic, isolation_level: int, session_id: int = 0) -> Template:
    """(correlation id, size of the records, (high watermark, last stable offset, log start offset)) -> head and tail.

    The codec encodes one such reply; what the fields look like in it tells where to put others.
    """
    flexible = context.codec.flexible
    records = FileRange(_NO_FILE, 0, 1)
    response = FetchResponse(
        session_id=session_id,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=topic.partitions[0].partition,
                        high_watermark=_HIGH_WATERMARK,
                        last_stable_offset=_STABLE_OFFSET,
                        log_start_offset=_LOG_START,
                        aborted_transactions=[] if isolation_level == READ_COMMITTED else None,
                        records=records,
                    )
                ],
            )
        ],
    )
    sample = BrokerContext.charged(context.server, context.session, context.codec, 0)
    parts = sample.pack(response)
    assert isinstance(parts, list), "records in a file are a separate part"
    head, _, *rest = parts
    assert isinstance(head, bytes), "the fields before the records are one buffer"
    tail = b"".join(rest)  # type: ignore[arg-type]  # buffers: there are no other records
    before = head[8 : -len(_encode_length(1, flexible))]
    count = 2 if context.api_version < LOG_START_OFFSET_FROM else 3
    first, last = around_fields(before, (_HIGH_WATERMARK, _STABLE_OFFSET, _LOG_START)[:count])
    pack = Struct(f">ii{len(first)}s{count}q{len(last)}s").pack
    fixed = len(before) + len(tail) + 4

    def frame(correlation_id: int, size: int, watermarks: tuple[int, int, int]) -> tuple[bytes, bytes]:
        length = _encode_length(size, flexible)
        whole = fixed + len(length) + size
        return pack(whole, correlation_id, first, *watermarks[:count], last) + length, tail

    return frame


def _encode_length(size: int, flexible: bool) -> bytes:
    return encode_varint(size + 1) if flexible else size.to_bytes(4, "big")


class _NoFile:
    """The file of a sample reply, which is never read."""

    def read(self, offset: int, count: int) -> bytes:
        raise AssertionError("a sample reply is never sent")

    def send_to(self, sock: object, offset: int, count: int) -> int:
        raise AssertionError("a sample reply is never sent")


_NO_FILE: Final = _NoFile()
