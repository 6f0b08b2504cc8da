"""The outcomes of acquired records, as requests carry them. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

import attrs

from broker.client.types import TopicPartition
from metadata.protocol import AcknowledgeType

# From this length on, offsets with one outcome are sent as a range with one type, and not with a type for each. A range
# costs as many bytes as 19 types.
_RANGE_MIN: Final = 20

_B = TypeVar("_B")


class Outcome(NamedTuple):
    """The outcome of the offsets from `first` to `last`."""

    first: int
    last: int
    type: AcknowledgeType


@attrs.frozen(eq=False)
class Source:
    """Where records were acquired: from the leader `node_id` of a partition, in one of its share sessions.

    They can be acknowledged there only: with another leader, or after the session, the locks are gone.
    """

    node_id: int
    partition: TopicPartition
    topic_id: bytes
    session: int


@attrs.frozen(eq=False)
class Acknowledgement:
    """Outcomes of offsets of one source, in their order.

    `delivered` are the offsets of records that the application was given, and `renewed` those of them whose locks are
    to be renewed (KIP-1222). The other offsets are gaps and unreadable records, which may be far more.
    """

    source: Source
    outcomes: Sequence[Outcome]
    delivered: Sequence[int] = ()
    renewed: Sequence[int] = ()


def coalesced(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes in the order of their offsets, neighbours with the same type as one."""
    merged: list[Outcome] = []
    for outcome in sorted(outcomes):
        before = merged[-1] if merged else None
        if before is not None and before.type is outcome.type and before.last + 1 == outcome.first:
            merged[-1] = before._replace(last=outcome.last)
        else:
            merged.append(outcome)
    return merged


def acknowledgement_batches(outcomes: Iterable[Outcome], make: Callable[..., _B]) -> list[_B]:
    """The batches of a request for these outcomes. `make` is the class of the request's batches.

    A batch has a range of offsets, and one type for all of them or a type for each.
    """
    batches: list[_B] = []
    types: list[int] = []
    begin = 0

    def finish() -> None:
        if types:
            is_uniform = types.count(types[0]) == len(types)
            kinds = types[:1] if is_uniform else list(types)
            batches.append(make(first_offset=begin, last_offset=begin + len(types) - 1, acknowledge_types=kinds))
            types.clear()

    for first, last, kind in coalesced(outcomes):
        if first != begin + len(types):
            finish()
        if last - first + 1 >= _RANGE_MIN:
            finish()
            batches.append(make(first_offset=first, last_offset=last, acknowledge_types=[int(kind)]))
            begin = last + 1
            continue
        if not types:
            begin = first
        types += [int(kind)] * (last - first + 1)
    finish()
    return batches
