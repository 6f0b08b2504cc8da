"""Records that every client can produce, and a stream of unusual ones."""

import random
from typing import NamedTuple

import attrs

Headers = tuple[tuple[str, bytes | None], ...]


class ClientRecord(NamedTuple):
    """One record for a partition. With a timestamp (ms) of None, the client chooses the time."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


class Consumed(NamedTuple):
    """A record as a consumer returned it."""

    offset: int
    record: ClientRecord


@attrs.frozen
class Shape:
    """The features that a client can express: the command line of kcat has fewer than the libraries."""

    empty_fields: bool = True
    headers_per_record: bool = True
    binary_headers: bool = True
    null_headers: bool = True
    timestamps: bool = True

    def __and__(self, other: "Shape") -> "Shape":
        return Shape(
            empty_fields=self.empty_fields and other.empty_fields,
            headers_per_record=self.headers_per_record and other.headers_per_record,
            binary_headers=self.binary_headers and other.binary_headers,
            null_headers=self.null_headers and other.null_headers,
            timestamps=self.timestamps and other.timestamps,
        )


# A null header value, a repeated name and a name outside ASCII, all as plain text.
TEXT_HEADERS: Headers = (("source", b"test"), ("source", b"again"), ("größe", b"7"), ("nothing", None))


def awkward_records(
    count: int, *, partitions: int, shape: Shape, first_timestamp_ms: int, seed: int = 0
) -> list[ClientRecord]:
    """Records for all partitions in turn: null, empty, tiny and large fields, compressible and random bytes.

    Timestamps increase by 1 ms per record. Key and value are never both null, because kafka-python refuses that.
    """
    rng = random.Random(seed)
    return [
        ClientRecord(
            partition=index % partitions,
            key=key,
            value=_field(rng, shape, index, nullable=key is not None),
            headers=_headers(rng, shape),
            timestamp_ms=first_timestamp_ms + index if shape.timestamps else None,
        )
        for index in range(count)
        for key in [_field(rng, shape, index, nullable=True)]
    ]


def _field(rng: random.Random, shape: Shape, index: int, *, nullable: bool) -> bytes | None:
    kind = rng.randrange(100)
    if kind < 15 and nullable:
        return None
    if kind < 25 and shape.empty_fields:
        return b""
    if kind < 60:
        return rng.randbytes(rng.randrange(1, 60))
    if kind == 99:
        return rng.randbytes(64) * rng.randrange(1, 160)
    return b"record %d of a stream of many, " % index * rng.randrange(1, 4)


def _headers(rng: random.Random, shape: Shape) -> Headers:
    text = TEXT_HEADERS if shape.null_headers else TEXT_HEADERS[:-1]
    if not shape.headers_per_record:
        return text
    if rng.random() < 0.7:
        return ()
    if not shape.binary_headers:
        return text[rng.randrange(3) :]
    return (*text, ("", b""), ("bytes", rng.randbytes(rng.randrange(40))))[rng.randrange(5) :]


def by_partition(records: list[ClientRecord]) -> dict[int, list[ClientRecord]]:
    """The records of each partition, in order."""
    result: dict[int, list[ClientRecord]] = {}
    for record in records:
        result.setdefault(record.partition, []).append(record)
    return result
