"""Where the requests and responses of each API have their topics, partitions, groups and error codes.

A shape is a path of lists: each level is a list within an element of the level above it, in the request and in the
response. A response may have one level more: a Metadata request names topics, and its response has their partitions.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

import attrs

from broker.wire.api import APIS, Api
from broker.wire.errors import ErrorCode
from broker.wire.uuids import ZERO_UUID

# Finds the name of a topic by its id.
NameOf: TypeAlias = Callable[[bytes], str | None]

TOPIC: Final = "topic"
PARTITION: Final = "partition"
GROUP: Final = "group"
TRANSACTION: Final = "transactional_id"
RESOURCE: Final = "resource"
# Elements with an identity that no fault names, such as the markers of WriteTxnMarkers.
OTHER: Final = "other"

_TOPIC_RESOURCE: Final = 2
_NAMES: Final = ("name", "topic", "topic_name")
_PARTITIONS: Final = ("index", "partition_index", "partition", "partition_id")
_ERRORS: Final = ("error_code", "partition_error_code")
_GROUP_KEY: Final = 0

# Errors of a fetch session, which only a whole response can have.
WHOLE_RESPONSE_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    }
)


@attrs.frozen
class Level:
    """A list of elements of one kind. `asked` is its field in the request, "" if only the response has it."""

    kind: str
    asked: str
    answered: str


Shape: TypeAlias = tuple[Level, ...]


@attrs.frozen
class Subject:
    """One element that a request is about. None: it has no such part, or is about all of them."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None

    @property
    def place(self) -> tuple[str | None, int | None]:
        return self.topic, self.partition


def _shape(*levels: str) -> Shape:
    """Read levels such as "topic topic_data responses": the kind, the request's list, the response's list."""
    return tuple(
        Level(kind, "" if asked == "-" else asked, answered) for kind, asked, answered in map(str.split, levels)
    )


_TOPIC_LEVEL: Final = "topic topics topics"
_PARTITIONS_BY_TOPIC: Final = _shape(_TOPIC_LEVEL, "partition partitions partitions")
_INDEXES_BY_TOPIC: Final = _shape(_TOPIC_LEVEL, "partition partition_indexes partitions")
_ALL_PARTITIONS_BY_TOPIC: Final = _shape(_TOPIC_LEVEL, "partition - partitions")
_FETCHED: Final = _shape("topic topics responses", "partition partitions partitions")
_SHARE_STATES: Final = _shape("topic topics results", "partition partitions partitions")

# The shapes of an API; the first one whose lists the version has counts. Responses of other APIs have one error code.
_SHAPES: Final[Mapping[str, tuple[Shape, ...]]] = {
    "Produce": (_shape("topic topic_data responses", "partition partition_data partition_responses"),),
    "Fetch": (_FETCHED,),
    "ListOffsets": (_PARTITIONS_BY_TOPIC,),
    "Metadata": (_ALL_PARTITIONS_BY_TOPIC,),
    "OffsetCommit": (_PARTITIONS_BY_TOPIC,),
    "OffsetFetch": (
        _shape("group groups groups", *("topic topics topics", "partition partition_indexes partitions")),
        _INDEXES_BY_TOPIC,
    ),
    "FindCoordinator": (_shape("group coordinator_keys coordinators"),),
    "DescribeGroups": (_shape("group groups groups"),),
    "CreateTopics": (_shape(_TOPIC_LEVEL),),
    "DeleteTopics": (_shape("topic topics responses"), _shape("topic topic_names responses")),
    "DeleteRecords": (_PARTITIONS_BY_TOPIC,),
    "OffsetForLeaderEpoch": (_PARTITIONS_BY_TOPIC,),
    "AddPartitionsToTxn": (
        _shape(
            "transactional_id transactions results_by_transaction",
            "topic topics topic_results",
            "partition partitions results_by_partition",
        ),
        _shape("topic v3_and_below_topics results_by_topic_v3_and_below", "partition partitions results_by_partition"),
    ),
    "WriteTxnMarkers": (_shape("other markers markers", _TOPIC_LEVEL, "partition partition_indexes partitions"),),
    "TxnOffsetCommit": (_PARTITIONS_BY_TOPIC,),
    "DescribeConfigs": (_shape("resource resources results"),),
    "AlterConfigs": (_shape("resource resources responses"),),
    "IncrementalAlterConfigs": (_shape("resource resources responses"),),
    "CreatePartitions": (_shape("topic topics results"),),
    "DeleteGroups": (_shape("group groups_names results"),),
    "ElectLeaders": (
        _shape("topic topic_partitions replica_election_results", "partition partitions partition_result"),
    ),
    "AlterPartitionReassignments": (_shape("topic topics responses", "partition partitions partitions"),),
    "OffsetDelete": (_PARTITIONS_BY_TOPIC,),
    "AlterPartition": (_PARTITIONS_BY_TOPIC,),
    "DescribeProducers": (_INDEXES_BY_TOPIC,),
    "DescribeTransactions": (_shape("transactional_id transactional_ids transaction_states"),),
    "ConsumerGroupDescribe": (_shape("group group_ids groups"),),
    "AssignReplicasToDirs": (_shape("other directories directories", _TOPIC_LEVEL, "partition partitions partitions"),),
    "DescribeTopicPartitions": (_ALL_PARTITIONS_BY_TOPIC,),
    "ShareGroupDescribe": (_shape("group group_ids groups"),),
    "ShareFetch": (_FETCHED,),
    "ShareAcknowledge": (_FETCHED,),
    "InitializeShareGroupState": (_SHARE_STATES,),
    "ReadShareGroupState": (_SHARE_STATES,),
    "WriteShareGroupState": (_SHARE_STATES,),
    "DeleteShareGroupState": (_SHARE_STATES,),
    "ReadShareGroupStateSummary": (_SHARE_STATES,),
    "DescribeShareGroupOffsets": (_shape("group groups groups", _TOPIC_LEVEL, "partition partitions partitions"),),
    "AlterShareGroupOffsets": (_FETCHED,),
    "DeleteShareGroupOffsets": (_shape("topic topics responses"),),
}


@cache
def api_named(name: str) -> Api | None:
    """The API of this name."""
    return next((api for api in APIS.values() if api.name == name), None)


@cache
def shape_of(api: Api, version: int) -> Shape:
    """The shape of this version's messages; empty if only the whole response has an error code."""
    for shape in _SHAPES.get(api.name, ()):
        if (
            version in _field(api.request, shape[0].asked).versions
            and version in _field(api.response, shape[0].answered).versions
        ):
            return shape
    return ()


def kinds_of(api: Api) -> frozenset[str]:
    """The kinds of elements that requests of the API may name, in any version."""
    kinds = {level.kind for shape in _SHAPES.get(api.name, ()) for level in shape}
    names = {spec.name for spec in api.request.__fields__}
    if "group_id" in names or api.name == "FindCoordinator":
        kinds.add(GROUP)
    if names & {"transactional_id", "v3_and_below_transactional_id"} or api.name == "FindCoordinator":
        kinds.add(TRANSACTION)
    return frozenset(kinds | {TOPIC} if RESOURCE in kinds else kinds)


def error_field(struct: type[Any], version: int | None = None) -> str | None:
    """The name of the field with the error code of a struct, in one version or in any."""
    names = {spec.name for spec in struct.__fields__ if version is None or version in spec.versions}
    return next((name for name in _ERRORS if name in names), None)


def _field(struct: type[Any], name: str) -> Any:
    return next(spec for spec in struct.__fields__ if spec.name == name)


def element_class(struct: type[Any], field: str) -> type[Any]:
    """The class of the elements of a list of structs."""
    element: type[Any] = _field(struct, field).type[0]
    return element


def of_request(request: Any) -> Subject:
    """The subject of a request as a whole, to which its elements add."""
    return Subject(
        group=getattr(request, "group_id", None) or None,
        transactional_id=getattr(request, "transactional_id", None)
        or getattr(request, "v3_and_below_transactional_id", None)
        or None,
    )


def of_element(kind: str, element: Any, outer: Subject, name_of: NameOf, request: Any = None) -> Subject:
    """The subject of an element of a request or a response; `request` tells which keys FindCoordinator has."""
    if kind == TOPIC:
        return attrs.evolve(outer, topic=_topic(element, name_of))
    if kind == PARTITION:
        return attrs.evolve(outer, partition=partition_of(element))
    if kind == RESOURCE:
        is_topic = element.resource_type == _TOPIC_RESOURCE
        return attrs.evolve(outer, topic=element.resource_name if is_topic else None)
    if kind == GROUP:
        key = element if isinstance(element, str) else getattr(element, "group_id", None) or getattr(element, "key", "")
        is_group = getattr(request, "key_type", _GROUP_KEY) == _GROUP_KEY
        return attrs.evolve(outer, group=key) if is_group else attrs.evolve(outer, transactional_id=key)
    if kind == TRANSACTION:
        return attrs.evolve(
            outer, transactional_id=element if isinstance(element, str) else element.transactional_id or None
        )
    return outer


def partition_of(element: Any) -> int:
    """The index of a partition, which is a struct or the index itself."""
    if isinstance(element, int):
        return element
    index: int = getattr(element, partition_field(type(element)))
    return index


def partition_field(struct: type[Any]) -> str:
    names = {spec.name for spec in struct.__fields__}
    return next(name for name in _PARTITIONS if name in names)


def _topic(element: Any, name_of: NameOf) -> str | None:
    if isinstance(element, str):
        return element
    topic_id = getattr(element, "topic_id", ZERO_UUID)
    for field in _NAMES:
        if name := getattr(element, field, None):
            return str(name)
    return name_of(topic_id) if topic_id != ZERO_UUID else None


def subjects(shape: Shape, request: Any, name_of: NameOf) -> list[Subject]:
    """The subjects of a request: one per innermost element, or one for the whole request if it names none."""
    outer = of_request(request)
    if request.__class__.__name__ == "FindCoordinatorRequest" and not shape:
        outer = of_element(GROUP, request.key, outer, name_of, request)
    asked = tuple(level for level in shape if level.asked)
    return list(_innermost(asked, request, outer, name_of, request)) or [outer]


def _innermost(shape: Shape, struct: Any, outer: Subject, name_of: NameOf, request: Any) -> Iterator[Subject]:
    level, *deeper = shape if shape else (None,)
    if level is None:
        return
    for element in getattr(struct, level.asked) or ():
        subject = of_element(level.kind, element, outer, name_of, request)
        inner = list(_innermost(tuple(deeper), element, subject, name_of, request))
        yield from inner or [subject]
