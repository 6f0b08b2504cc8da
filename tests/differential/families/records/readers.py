"""The state of the readers of a sequence: the ids of topics and the fetch sessions that a server has given to them."""

from enum import Enum
from typing import Final

import attrs
import trio

from broker.wire.api.describe_transactions import DescribeTransactionsRequest
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.init_producer_id import InitProducerIdRequest
from broker.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.wire.errors import ErrorCode
from tests.differential.execution import error_names
from tests.differential.families.transactions.producers import Producers
from tests.differential.sequences import Call, Place

# The topics of each sequence of fetches, and one that some sequences of offsets create.
TOPICS: Final = ("t", "u")
ODD: Final = "c"
SUFFIXES: Final = (*TOPICS, ODD)
UNKNOWN_TOPIC_ID: Final = b"absent".ljust(16, b".")
UNKNOWN_SESSION_ID: Final = 123_456
NO_SESSION: Final = (0, -1)
_TRANSACTIONAL_IDS: Final = ("a", "b")
_PREPARED: Final = ("PrepareCommit", "PrepareAbort")
_TRANSACTION_KEY: Final = 1
_EXISTS: Final = "NONE"
_DELETED: Final = "UNKNOWN_TOPIC_OR_PARTITION"
_WITHIN_S: Final = 60
_PAUSE_S: Final = 0.002


class TopicId(Enum):
    """An id of a topic: its present one, or that of the topic of the same name before it."""

    CURRENT = "current"
    FORMER = "former"
    UNKNOWN = "unknown"


class Session(Enum):
    """A session's id and epoch in a request."""

    NONE = "none"
    NEW = "new"
    NEXT = "next"
    SAME_EPOCH = "same epoch"
    LATER_EPOCH = "later epoch"
    NEGATIVE_EPOCH = "negative epoch"
    UNKNOWN = "unknown"
    CLOSE = "close"
    REPLACE = "replace"


@attrs.define(eq=False)
class Readers(Producers):
    """The topic ids and fetch sessions of a sequence, and its producers.

    `topic_ids` are those of all topics with a name, in the order of their creation. `partitions` are the counts of the
    topics that the last steps have created, and 0 for those that they have deleted.
    """

    topic_ids: dict[str, list[bytes]] = attrs.field(factory=dict)
    partitions: dict[str, int] = attrs.field(factory=dict)
    sessions: dict[int, tuple[int, int]] = attrs.field(factory=dict)

    def session(self, number: int, use: Session) -> tuple[int, int]:
        session_id, epoch = self.sessions.get(number, (0, 0))
        return {
            Session.NONE: NO_SESSION,
            Session.NEW: (0, 0),
            Session.NEXT: (session_id, epoch),
            Session.SAME_EPOCH: (session_id, max(epoch - 1, 0)),
            Session.LATER_EPOCH: (session_id, epoch + 1),
            Session.NEGATIVE_EPOCH: (session_id, -2),
            Session.UNKNOWN: (UNKNOWN_SESSION_ID, epoch),
            Session.CLOSE: (session_id, -1),
            Session.REPLACE: (session_id, 0),
        }[use]


def readers_of(place: Place) -> Readers:
    state: Readers = place.state
    return state


def known_topic_ids(place: Place, suffix: str) -> list[bytes]:
    """The ids of all topics with a name, in the order of their creation."""
    created = place.topic_ids.get(place.named(suffix))
    return ([] if created is None else [created]) + readers_of(place).topic_ids.get(suffix, [])


def topic_id(place: Place, suffix: str, which: TopicId) -> bytes:
    known = known_topic_ids(place, suffix)
    if not known or which is TopicId.UNKNOWN:
        return UNKNOWN_TOPIC_ID
    return known[-1 if which is TopicId.CURRENT else -2] if len(known) > 1 else known[0]


def label_topics(place: Place) -> None:
    """Labels topics by their names, because responses with ids alone may have them in any order."""
    place.labels.label("T", UNKNOWN_TOPIC_ID)
    for suffix in SUFFIXES:
        for each in known_topic_ids(place, suffix):
            place.labels.label("T", each)


class RecordFamily:
    """The part that the families of records share."""

    passing = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})

    def new_state(self) -> Readers:
        return Readers()

    async def prepare(self, call: Call) -> None:
        """Waits for the coordinator of transactions, and for the first producer id."""
        with trio.fail_after(_WITHIN_S):
            find = FindCoordinatorRequest(key_type=_TRANSACTION_KEY, coordinator_keys=["prepare"])
            while any(each.error_code for each in (await call(find, 6)).coordinators):
                await trio.sleep(_PAUSE_S)
            init = InitProducerIdRequest(transactional_id="prepare", transaction_timeout_ms=60_000)
            init.producer_id = init.producer_epoch = -1
            while (await call(init, 5)).error_code:
                await trio.sleep(_PAUSE_S)

    async def settle(self, place: Place, call: Call) -> None:
        """Waits until transactions have their markers, new topics their leaders, and deleted ones are gone."""
        state = readers_of(place)
        with trio.fail_after(_WITHIN_S):
            if state.is_ending:
                request = DescribeTransactionsRequest(transactional_ids=list(map(place.named, _TRANSACTIONAL_IDS)))
                while any(each.transaction_state in _PREPARED for each in (await call(request, 0)).transaction_states):
                    await trio.sleep(_PAUSE_S)
                state.is_ending = False
            for suffix, count in state.partitions.items():
                listed = [ListOffsetsPartition(partition_index=at, timestamp=-1) for at in range(count or 1)]
                topic = ListOffsetsTopic(name=place.named(suffix), partitions=listed)
                expected = {_EXISTS if count else _DELETED}
                while set(error_names(await call(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7))) != expected:
                    await trio.sleep(_PAUSE_S)
            state.partitions.clear()
