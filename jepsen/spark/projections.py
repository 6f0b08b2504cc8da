"""Splits operations into parts by key, for each kind of key that checkers use."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from zlib import crc32

import attrs

from jepsen.checkers.applications.views import CommitEvidence, scan_rank
from jepsen.history import Operation, Outcome
from jepsen.values import Commit, Ownership, source_of, transaction_of

# A key as text, and the part of the operation that belongs to it.
Projected: TypeAlias = tuple[str, Operation]
Projector: TypeAlias = Callable[[Operation], Iterable[Projected]]

# The contexts of all transactions, and of all copies. No topic has these names.
_TRANSACTIONS: Final = ""
_COPIES: Final = "/copies"
# The functions whose operations have contexts.
CONTEXTUAL: Final = (
    "create-topic",
    "assign",
    "process",
    "commit",
    "fetch-committed",
    "scan",
    "final-read",
    "final-offsets",
)
# The number of keys that values are hashed to. The values of one key have to fit a worker's memory.
_VALUE_KEYS: Final = 1_024
_READS: Final = ("poll", "poll-group", "poll-transaction", "scan", "final-read")


class Projection(Enum):
    """The kind of key that a checker needs: only operations with the same key can affect each other."""

    PARTITION = "partition"
    VALUE = "value"
    # The name of a transaction. The names of its values show it.
    TRANSACTION = "transaction"
    # Everything about transactions, whose order in several partitions matters. It has to fit the memory of one worker.
    TRANSACTION_ORDER = "transaction order"
    # A value and the outputs of consume-transform-produce transactions that consumed it.
    SOURCE = "source"
    # The name of a record in the input and in the output of an application.
    COPY = "copy"
    GROUP = "group"
    NAME = "name"
    REGISTER = "register"
    # The few operations that belong to no single key.
    WHOLE = "whole"


def projectors(function: str, projections: Iterable[Projection]) -> Sequence[tuple[Projection, Projector]]:
    """The projectors for operations of this function, for each projection whose checkers use them.

    A projector splits an operation into parts, each with its key.
    """
    return [(each, _PROJECTORS[each][function]) for each in projections if function in _PROJECTORS[each]]


def contexts_of(operation: Operation) -> Iterator[tuple[str, Operation]]:
    """Facts that the checkers of several keys need, with the name of the context; see `context_of_key`.

    The context of a topic tells whether the topic is flushed, and which groups consume it. A group that owns one
    partition of a topic has to read all others too. This is expressed by an assignment without an outcome, which
    assigns nothing. The context of all transactions has the final offsets of groups, and tells which partitions were
    finally read. This is expressed by a final read without records. The context of an application's topic also tells
    which groups record what they process, and that of all copies which offsets were committed, and how far topics were
    read.
    """
    if operation.function == "create-topic":
        yield operation.value.name, operation
    elif operation.function == "assign":
        for topic in dict.fromkeys(topic for topic, _ in operation.value.partitions):
            told = Ownership(operation.value.group, "", -1, ((topic, -1),))
            yield topic, Operation("", "assign", told, operation.invoked_at)
    elif operation.function == "process":
        work = operation.value
        mark = attrs.evolve(work, partition=-1, offset=-1)
        yield work.topic, Operation("", "process", mark, 0.0)
    elif operation.function in ("commit", "fetch-committed", "scan") and operation.outcome is Outcome.OK:
        yield from ((_COPIES, context) for context in _contexts_of_copies(operation))
    elif operation.function == "final-read" and operation.outcome is Outcome.OK:
        yield _TRANSACTIONS, attrs.evolve(operation, client="", result=())
    elif operation.function == "final-offsets":
        yield _TRANSACTIONS, operation


def _contexts_of_copies(operation: Operation) -> Iterator[Operation]:
    """The parts of an operation by partition, without records and members."""
    if operation.function == "scan":
        yield attrs.evolve(operation, client="", serial=0, result=())
        return
    offsets = operation.value.offsets if operation.function == "commit" else operation.result
    for place in offsets:
        value = Commit(operation.value.group, "", -1, (place,))
        yield attrs.evolve(operation, client="", serial=0, function="commit", value=value, result=None)


def stronger_context(first: Operation | None, second: Operation) -> Operation:
    """Return the fact that says more, of two with the same name: the higher offset, or the later part of a read."""
    if first is None:
        return second
    if first.function == "scan":
        return second if scan_rank(second) > scan_rank(first) else first
    if first.function == "commit":
        evidence = [CommitEvidence(each.value.offsets[0][2], each) for each in (first, second)]
        return second if evidence[1].before(evidence[0]) else first
    return first


def context_of_key(projection: Projection, key: str) -> str | None:
    """The name of the context that the checkers of a key need, None if they need no context."""
    match projection:
        case Projection.PARTITION:
            return key.partition("/")[2]
        case Projection.TRANSACTION | Projection.SOURCE:
            return _TRANSACTIONS
        case Projection.COPY:
            return _COPIES
        case _:
            return None


def _key(topic: str, partition: int) -> str:
    return f"{partition}/{topic}"


def _whole_of_partition(operation: Operation) -> Iterable[Projected]:
    return ((_key(operation.value.topic, operation.value.partition), operation),)


def _polled_of_partition(operation: Operation) -> Iterable[Projected]:
    is_empty = operation.outcome is Outcome.OK and not operation.result
    # A poll from offset zero begins again, even if it returns no record.
    is_start = operation.function == "poll" and operation.value.offset == 0
    return () if is_empty and not is_start else _whole_of_partition(operation)


def _named_partition(operation: Operation) -> Iterable[Projected]:
    """The key of an operation whose value begins with a topic and a partition."""
    topic, partition, *_ = operation.value
    return ((_key(topic, partition), operation),)


def _owned_partitions(operation: Operation) -> Iterator[Projected]:
    value = operation.value
    for partition in dict.fromkeys(value.partitions):
        yield _key(*partition), attrs.evolve(operation, value=attrs.evolve(value, partitions=(partition,)))


def _commits(operation: Operation) -> Iterator[Projected]:
    for key, offsets in _by_place(operation.value.offsets).items():
        yield key, attrs.evolve(operation, value=attrs.evolve(operation.value, offsets=offsets))


def _committed_reads(operation: Operation) -> Iterator[Projected]:
    is_ok = operation.outcome is Outcome.OK
    asked = _by_place(operation.value.partitions)
    told = _by_place(operation.result) if is_ok else {}
    for key in dict.fromkeys((*asked, *told)):
        value = attrs.evolve(operation.value, partitions=asked.get(key, ()))
        yield key, attrs.evolve(operation, value=value, result=told.get(key, ()) if is_ok else operation.result)


def _by_place(items: Iterable[tuple[Any, ...]]) -> Mapping[str, tuple[tuple[Any, ...], ...]]:
    """Group tuples that begin with a topic and a partition by the key of these."""
    found: dict[str, tuple[tuple[Any, ...], ...]] = {}
    for item in items:
        key = _key(item[0], item[1])
        found[key] = (*found.get(key, ()), item)
    return found


def _sent_values(operation: Operation) -> Iterable[Projected]:
    return _sent_by(_value_key, operation)


def _sent_names(operation: Operation) -> Iterable[Projected]:
    return _sent_by(_hashed, operation)


def _sent_by(key_of: Callable[[str], str], operation: Operation) -> Iterable[Projected]:
    keys = [key_of(value) for value in operation.value.values]
    return ((keys[0], operation),) if len(set(keys)) == 1 else zip(keys, _single_sends(operation), strict=True)


def _single_sends(operation: Operation) -> Iterator[Operation]:
    """Split a send of several values into one send for each value."""
    offset = operation.result if operation.outcome is Outcome.OK else None
    for at, value in enumerate(operation.value.values):
        result = operation.result if offset is None else offset + at
        yield attrs.evolve(operation, value=attrs.evolve(operation.value, values=(value,)), result=result)


def _split_by(key_of: Callable[[str], str]) -> Projector:
    """Build the projector that splits a read by the keys of its values."""

    def split(operation: Operation) -> Iterator[Projected]:
        records_of: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for record in operation.result if operation.outcome is Outcome.OK else ():
            records_of[key_of(record[1])].append(record)
        for key, records in records_of.items():
            is_whole = len(records_of) == 1
            yield key, operation if is_whole else attrs.evolve(operation, result=tuple(records))

    return split


def _value_key(value: str) -> str:
    """The key of a value.

    Values are "<session>/<partition>@<ms>/<sequence>", or without the time. Values of a session that differ only in the
    last three digits have the same key, so an operation on several of them is rarely split.
    """
    session, _, timed = value.partition("@")
    run = session + timed[timed.rfind("/") : -3] if timed else session[:-3]
    return _hashed(run)


def _transaction_key(value: str) -> str:
    return _hashed(transaction_of(value))


def _source_key(value: str) -> str:
    return _hashed(source_of(value))


def _hashed(name: str) -> str:
    return str(crc32(name.encode()) % _VALUE_KEYS)


def _of_transaction(operation: Operation) -> Iterable[Projected]:
    return ((_hashed(operation.value.name), operation),)


def _of_group(operation: Operation) -> Iterable[Projected]:
    return ((operation.value.group, operation),)


def _of_name(operation: Operation) -> Iterable[Projected]:
    return ((operation.value.name, operation),)


def _of_register(operation: Operation) -> Iterable[Projected]:
    return ((str(operation.value[1]), operation),)


def _of_all(operation: Operation) -> Iterable[Projected]:
    return (("", operation),)


# For each projection, the functions whose operations its checkers use.
_PROJECTORS: Final[Mapping[Projection, Mapping[str, Projector]]] = MappingProxyType(
    {
        Projection.PARTITION: {
            "send": _whole_of_partition,
            "poll": _polled_of_partition,
            "poll-group": _polled_of_partition,
            "poll-transaction": _polled_of_partition,
            "read-replica": _whole_of_partition,
            **dict.fromkeys(("scan", "process", "seek"), _whole_of_partition),
            **dict.fromkeys(("final-read", "see-epochs", "list-end", "find-time", "see-stable"), _named_partition),
            **dict.fromkeys(("assign", "revoke", "lose"), _owned_partitions),
            "commit": _commits,
            "fetch-committed": _committed_reads,
        },
        Projection.VALUE: {"send": _sent_values, **dict.fromkeys(_READS, _split_by(_value_key))},
        Projection.COPY: {"send": _sent_names, **dict.fromkeys(_READS, _split_by(_hashed))},
        Projection.TRANSACTION: {
            **dict.fromkeys(("transact", "end-transaction"), _of_transaction),
            **dict.fromkeys(_READS, _split_by(_transaction_key)),
        },
        Projection.TRANSACTION_ORDER: dict.fromkeys(
            ("transact", "end-transaction", "poll", "poll-transaction", "final-read"), _of_all
        ),
        Projection.SOURCE: {"final-read": _split_by(_source_key)},
        Projection.GROUP: dict.fromkeys(("assign", "commit"), _of_group),
        Projection.NAME: dict.fromkeys(("share-topic", "grow-topic", "drop-topic", "see-topic"), _of_name),
        Projection.REGISTER: dict.fromkeys(("read", "write", "cas"), _of_register),
        Projection.WHOLE: dict.fromkeys(
            ("heal", "run-node", "create-topic", "delete-topic", "list-topics", "unrecorded"), _of_all
        ),
    }
)
