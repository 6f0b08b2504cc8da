"""Which part of an operation belongs to which key, for each way in which checkers look at a history."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from zlib import crc32

import attrs

from jepsen.history import Operation, Outcome
from jepsen.values import Ownership

# A key in a text, and what of the operation belongs to it.
Projected: TypeAlias = tuple[str, Operation]

# Values are spread over so many keys. A key has to fit into the memory of a worker.
_VALUE_KEYS: Final = 1_024
_READS: Final = ("poll", "poll-group", "final-read")


class Projection(Enum):
    """What a checker compares: only operations with the same one matter to each other."""

    PARTITION = "partition"
    VALUE = "value"
    GROUP = "group"
    NAME = "name"
    REGISTER = "register"
    # Few operations, of whatever is not about one key.
    WHOLE = "whole"


def project(projection: Projection, operation: Operation) -> Iterator[Projected]:
    """The parts of an operation, each with its key; nothing if no checker of this projection looks at it."""
    return _PROJECTIONS[projection](operation)


def contexts_of(operation: Operation) -> Iterator[tuple[str, Operation]]:
    """What all partitions of a topic have to know, with the topic's name.

    Which topics are flushed; and which groups consume a topic: a group with one partition of it is to get all others
    too. The latter is told by an assignment without outcome, which assigns nothing.
    """
    if operation.function == "create-topic":
        yield operation.value.name, operation
    elif operation.function == "assign":
        for topic in dict.fromkeys(topic for topic, _ in operation.value.partitions):
            told = Ownership(operation.value.group, "", -1, ((topic, -1),))
            yield topic, Operation("", "assign", told, operation.invoked_at)


def topic_of(key: str) -> str:
    """The topic of a key of PARTITION."""
    return key.partition("/")[2]


def _key(topic: str, partition: int) -> str:
    return f"{partition}/{topic}"


def _by_partition(operation: Operation) -> Iterator[Projected]:
    value = operation.value
    match operation.function:
        case "poll" | "poll-group" if operation.outcome is Outcome.OK and not operation.result:
            return
        case "send" | "poll" | "poll-group" | "read-replica":
            yield _key(value.topic, value.partition), operation
        case "final-read" | "see-epochs" | "list-end":
            yield _key(*value), operation
        case "find-time":
            yield _key(*value[:2]), operation
        case "assign" | "revoke" | "lose":
            for partition in dict.fromkeys(value.partitions):
                yield _key(*partition), attrs.evolve(operation, value=attrs.evolve(value, partitions=(partition,)))
        case "commit":
            for key, offsets in _by_place(value.offsets).items():
                yield key, attrs.evolve(operation, value=attrs.evolve(value, offsets=offsets))
        case "fetch-committed":
            yield from _committed_reads(operation)


def _committed_reads(operation: Operation) -> Iterator[Projected]:
    is_ok = operation.outcome is Outcome.OK
    asked = _by_place(operation.value.partitions)
    told = _by_place(operation.result) if is_ok else {}
    for key in dict.fromkeys((*asked, *told)):
        value = attrs.evolve(operation.value, partitions=asked.get(key, ()))
        yield key, attrs.evolve(operation, value=value, result=told.get(key, ()) if is_ok else operation.result)


def _by_place(items: Iterable[tuple[Any, ...]]) -> Mapping[str, tuple[tuple[Any, ...], ...]]:
    """Tuples that begin with a topic and a partition, by the key of these."""
    found: dict[str, tuple[tuple[Any, ...], ...]] = {}
    for item in items:
        key = _key(item[0], item[1])
        found[key] = (*found.get(key, ()), item)
    return found


def _by_value(operation: Operation) -> Iterator[Projected]:
    if operation.function == "send":
        offset = operation.result if operation.outcome is Outcome.OK else None
        for at, value in enumerate(operation.value.values):
            result = operation.result if offset is None else offset + at
            yield _bucket(value), attrs.evolve(operation, value=_only(operation.value, value), result=result)
    elif operation.function in _READS and operation.outcome is Outcome.OK:
        buckets: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for record in operation.result:
            buckets[_bucket(record[1])].append(record)
        for key, records in buckets.items():
            yield key, attrs.evolve(operation, result=tuple(records))


def _only(sending: Any, value: str) -> Any:
    return attrs.evolve(sending, values=(value,))


def _bucket(value: str) -> str:
    return str(crc32(value.encode()) % _VALUE_KEYS)


def _by_group(operation: Operation) -> Iterator[Projected]:
    if operation.function in ("assign", "commit"):
        yield operation.value.group, operation


def _by_name(operation: Operation) -> Iterator[Projected]:
    if operation.function in ("share-topic", "grow-topic", "drop-topic", "see-topic"):
        yield operation.value.name, operation


def _by_register(operation: Operation) -> Iterator[Projected]:
    if operation.function in ("read", "write", "cas"):
        yield str(operation.value[1]), operation


def _whole(operation: Operation) -> Iterator[Projected]:
    if operation.function in ("heal", "run-node", "create-topic", "delete-topic", "list-topics"):
        yield "", operation


_PROJECTIONS: Final[Mapping[Projection, Callable[[Operation], Iterator[Projected]]]] = MappingProxyType(
    {
        Projection.PARTITION: _by_partition,
        Projection.VALUE: _by_value,
        Projection.GROUP: _by_group,
        Projection.NAME: _by_name,
        Projection.REGISTER: _by_register,
        Projection.WHOLE: _whole,
    }
)
