"""The largest requests that an API accepts, built from its message class with as many elements as its limits allow.

A request is wide (many elements at the top), deep (one element at the top, with many inside), or requests everything by
naming nothing. It names existing topics and groups first, and then unknown ones. Fields are filled by the meaning of
their names.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from broker.server.handler import Handler
from broker.wire.api import APIS
from broker.wire.codec import encode
from broker.wire.records import Record, encode_batch
from broker.wire.schema import FieldSpec
from broker.wire.uuids import ZERO_UUID

# The size of requests to APIs whose only limit is the listener's: they carry records, and few elements.
UNBOUNDED_BYTES: Final = 1024 * 1024
# Space for the header, and for the error of the second estimate of an element's size.
_SPARE_BYTES: Final = 512
# Below the codec's limit for all arrays of a request together.
_ELEMENTS_MAX: Final = 240_000
# The most elements of an array that handlers accept, where that is less than what fits into a request.
_ARRAY_ELEMENTS_MAX: Final = {"state_batches": 10_000}
_SHAPES: Final = ("wide", "deep", "deepest", "all")
# The depth of the array with many elements; all others have one.
_MANY_AT: Final = {"wide": 0, "deep": 1, "deepest": 2}


@attrs.frozen
class Names:
    """Existing names: topics by name and id, each with some partitions, and groups."""

    topics: Sequence[str]
    topic_ids: Sequence[bytes]
    groups: Sequence[str]
    partitions: int = 1


@attrs.frozen
class LargeRequest:
    shape: str
    message: Any
    version: int


# The last offset of the first batch of offsets in a request.
_LAST_OFFSET: Final = 1 << 20
# The size of one record.
_BATCH: Final = bytes(encode_batch([Record(0, 0, None, bytes(10))]))
# The values of fields whose type alone does not determine them.
_VALUES: Final[dict[str, object]] = {
    "acks": -1,
    "broker_epoch": -1,
    "config_operation": 0,
    "controller_id": -1,
    "endpoint_type": 1,
    "isolation_level": 0,
    "max_bytes": 1 << 20,
    "member_epoch": 0,
    "min_bytes": 0,
    "num_partitions": 1,
    "partition_max_bytes": 1 << 10,
    "replica_id": -1,
    "replication_factor": 1,
    "resource_type": 2,
    "response_partition_limit": 1 << 30,
    "session_epoch": -1,
    "session_timeout_ms": 6000,
    "rebalance_timeout_ms": 1000,
    "timeout_ms": 1000,
    "timestamp": -1,
    "transaction_timeout_ms": 60_000,
    "validate_only": True,
    "member_id": "",
    "group_instance_id": None,
    "cursor": None,
    "current_leader_epoch": -1,
    "generation_id_or_member_epoch": -1,
    "committed_metadata": "",
    "subscribed_topic_regex": None,
    "configuration_keys": None,
    "include_documentation": True,
    "include_synonyms": True,
    "protocol_type": "consumer",
    "resource_types": [],
    "assignments": [],
    "records": _BATCH,
    "replicas": None,
}
_TOPIC_FIELDS: Final = ("name", "topic", "topic_name", "resource_name", "topic_names", "subscribed_topic_names")
_GROUP_FIELDS: Final = ("groups", "group_ids", "group_id", "groups_names", "coordinator_keys", "key")
_PARTITION_FIELDS: Final = ("partitions", "partition_indexes", "partition_index", "partition", "index")


def largest_requests(handler: Handler, version: int, names: Names, part: float = 1.0) -> Iterator[LargeRequest]:
    """The distinct requests of all shapes, with `part` of the largest size."""
    cls = APIS[handler.api_key].request
    size_max = int(part * (handler.request_bytes_max or UNBOUNDED_BYTES))
    sizes = set()
    for shape in _SHAPES:
        message = _fill(cls, version, names, shape, size_max)
        if (size := _size(message, version)) not in sizes:
            yield LargeRequest(shape, message, version)
        sizes.add(size)


def small_request(handler: Handler, version: int, names: Names) -> Any:
    """A request with one element in each array."""
    return _Filler(names, version, "wide", 1).struct(APIS[handler.api_key].request, 0)


def _fill(cls: Any, version: int, names: Names, shape: str, size_max: int) -> Any:
    """Fill a message with as many elements as fit. A first message with few elements shows the size of one."""
    few, many = (_Filler(names, version, shape, count).struct(cls, 0) for count in (1, 65))
    per_element = (_size(many, version) - _size(few, version)) / 64
    if not per_element:
        return few
    count = int((size_max - _SPARE_BYTES - _size(few, version)) / per_element)
    while True:
        message = _Filler(names, version, shape, min(count, _elements_max(cls))).struct(cls, 0)
        size = _size(message, version)
        if size <= size_max - _SPARE_BYTES // 2:
            return message
        count = min(count - 1, int(count * 0.98 * size_max / size))  # fewer each time, so that it ends


def _elements_max(cls: Any) -> int:
    """Half of the codec's limit, because there may be two arrays at the top, each with an array inside."""
    own: int | None = cls.__message__.elements_max
    return _ELEMENTS_MAX if own is None else own // 2 - 2


def _size(message: Any, version: int) -> int:
    return sum(map(len, encode(message, version)))


class _Filler:
    def __init__(self, names: Names, version: int, shape: str, count: int) -> None:
        self._names = names
        self._version = version
        self._shape = shape
        self._count = count
        self._counts: dict[str, int] = {}

    def struct(self, cls: Any, depth: int) -> Any:
        present = [spec for spec in cls.__fields__ if self._version in spec.versions]
        filled = {spec.name: self._field(spec, depth) for spec in present}
        if {"name", "topic_id"} <= filled.keys():  # requests name a topic by one of the two
            filled["topic_id" if self._shape == "wide" else "name"] = ZERO_UUID if self._shape == "wide" else None
        return cls(**filled)

    def _field(self, spec: FieldSpec, depth: int) -> Any:
        if spec.name in _VALUES:
            return _VALUES[spec.name]
        if spec.name == "transactional_id" and self._version in spec.nullable:
            return None  # the request of a producer that is idempotent but not transactional
        if isinstance(spec.type, list) and self._shape == "all" and not depth:
            return None if self._version in spec.nullable else []
        if isinstance(spec.type, list):
            return self._array(spec, spec.type[0], depth)
        if isinstance(spec.type, type):
            return None if self._version in spec.nullable else self.struct(spec.type, depth)
        return self._scalar(spec.name, spec.type, spec.default)

    def _array(self, spec: FieldSpec, element: Any, depth: int) -> list[Any]:
        fields: Sequence[FieldSpec] = getattr(element, "__fields__", ())
        nests = any(isinstance(inner.type, list) for inner in fields)
        is_many = depth == _MANY_AT.get(self._shape) or (depth == 0 and not nests)
        count = min(self._count, _ARRAY_ELEMENTS_MAX.get(spec.name, self._count)) if is_many else 1
        if isinstance(element, type):
            return [self.struct(element, depth + 1) for _ in range(count)]
        return [self._scalar(spec.name, element, None) for _ in range(count)]

    def _scalar(self, name: str, type_: Any, default: object) -> Any:
        number = self._counts[name] = self._counts.get(name, -1) + 1
        names = self._names
        if type_ == "uuid":
            return names.topic_ids[number % len(names.topic_ids)]
        if type_ == "string":
            if name in _GROUP_FIELDS:
                return _one_of(names.groups, number, "group")
            if name in _TOPIC_FIELDS:
                return _one_of(names.topics, number, "topic")
            return default or f"value-{number}"
        if type_ == "bytes":
            return b"\0" * 6
        if name == "first_offset":
            return number
        if name == "last_offset":
            return _LAST_OFFSET - number  # all batches of offsets overlap
        if name == "delivery_count":
            return number // 2
        if name in _PARTITION_FIELDS:
            return number if self._shape in ("deep", "deepest") else number % names.partitions
        return default or 0


def _one_of(there: Sequence[str], number: int, kind: str) -> str:
    """An existing name for small numbers, and then unknown ones."""
    return there[number] if number < len(there) else f"no-{kind}-{number}"
