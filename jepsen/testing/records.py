"""Records of a topic, written and read by the supervisor for tests: as JSON, with keys and values in base64."""

from base64 import b64decode, b64encode
from binascii import Error as MalformedBase64
from collections.abc import Iterable, Mapping
from typing import Any, Final

import trio

from broker.client import ClientError, Consumer, ConsumerRecord, KafkaError, Producer, TopicPartition
from jepsen.testing.errors import ActionRefused, BadRequest, NotThere

# A record as requests have it.
RECORD_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "value": {"type": ["string", "null"], "contentEncoding": "base64"},
        "key": {"type": ["string", "null"], "contentEncoding": "base64"},
        "partition": {"type": ["integer", "null"]},
        "headers": {
            "type": ["array", "null"],
            "items": {
                "type": "array",
                "prefixItems": [{"type": "string"}, {"type": ["string", "null"], "contentEncoding": "base64"}],
                "minItems": 2,
                "maxItems": 2,
            },
        },
    },
    "required": ["value"],
    "additionalProperties": False,
}
_WITHIN_S: Final = 30.0
_TIMEOUT_MS: Final = 30_000


async def write_records(config: Mapping[str, object], topic: str, records: Iterable[object]) -> None:
    """Write records with acks=all, in their order. Raises BadRequest, ActionRefused."""
    parsed = [_parse(record) for record in records]
    try:
        async with Producer(config={**config, "delivery.timeout.ms": _TIMEOUT_MS, "linger.ms": 0}) as producer:
            deliveries = [producer.send_soon(topic, **record) for record in parsed]
            for delivery in deliveries:
                await delivery
    except (ClientError, KafkaError) as error:
        raise ActionRefused(str(error)) from error


async def read_records(config: Mapping[str, object], topic: str) -> list[dict[str, Any]]:
    """All committed records that a topic has now, by partition and offset. Raises NotThere, ActionRefused."""
    found: list[ConsumerRecord[bytes, bytes]] = []
    settings = {**config, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    try:
        with trio.fail_after(_WITHIN_S):
            async with Consumer(config=settings) as consumer:
                partitions = [TopicPartition(topic, each.partition) for each in await consumer.partitions_for(topic)]
                if not partitions:
                    raise NotThere(f"no topic {topic}")
                ends = await consumer.end_offsets(partitions)
                consumer.assign([each for each in partitions if ends[each]])
                while any([await consumer.position(each) < ends[each] for each in consumer.assignment()]):
                    found += await consumer.fetch(timeout_s=1.0)
    except (ClientError, KafkaError) as error:
        raise ActionRefused(str(error)) from error
    except trio.TooSlowError:
        raise ActionRefused(f"the records of {topic} cannot be read within {_WITHIN_S:g} s") from None
    return [_described(record) for record in sorted(found, key=lambda record: (record.partition, record.offset))]


def _described(record: ConsumerRecord[bytes, bytes]) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": _encoded(record.key),
        "value": _encoded(record.value),
        "headers": [[name, _encoded(value)] for name, value in record.headers],
    }


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _parse(record: object) -> dict[str, Any]:
    match record:
        case {"value": str() | None as value, **rest} if rest.keys() <= {"key", "partition", "headers"}:
            headers = rest.get("headers") or []
            if not isinstance(headers, list):
                raise BadRequest(f"headers has to be a list, not {headers!r}")
            return {
                "value": _decoded(value),
                "key": _decoded(rest.get("key")),
                "partition": _partition(rest.get("partition")),
                "headers": [_header(each) for each in headers],
            }
    raise BadRequest(f"a record has a value, and maybe key, partition and headers: {record!r}")


def _partition(partition: object) -> int | None:
    if partition is None or (isinstance(partition, int) and not isinstance(partition, bool)):
        return partition
    raise BadRequest(f"partition has to be an integer, not {partition!r}")


def _header(header: object) -> tuple[str, bytes | None]:
    match header:
        case [str(name), value]:
            return name, _decoded(value)
    raise BadRequest(f"a header is a list of a name and a value: {header!r}")


def _decoded(text: object) -> bytes | None:
    if text is None:
        return None
    try:
        return b64decode(str(text), validate=True)
    except (MalformedBase64, ValueError):
        raise BadRequest(f"{text!r} is not base64") from None
