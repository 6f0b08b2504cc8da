"""Error codes in the place where each API has them, for all versions, and answers with less data."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.api import APIS, Api
from broker.wire.api.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from broker.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from broker.wire.codec import decode, encode
from broker.wire.errors import ErrorCode
from broker.wire.schema import replaced
from jepsen.testing.faults.changed_answers import batch_ends, with_less
from jepsen.testing.faults.error_answers import Refuser
from jepsen.testing.faults.fault import EMPTY, TORN, FaultRefused, Selection, carries_error, fault_of
from jepsen.testing.faults.request_history import errors_of
from jepsen.testing.faults.shapes import api_named, shape_of, subjects
from tests.support.wire_client import only

CODE = ErrorCode.UNKNOWN_SERVER_ERROR
TOPIC_ID = bytes(range(16))
SERVED = [
    api
    for api in APIS.values()
    if api.name
    not in ("CreateAcls", "DeleteAcls", "AlterClientQuotas", "AlterReplicaLogDirs", "AlterUserScramCredentials")
]


def name_of(topic_id: bytes) -> str | None:
    return "orders" if topic_id == TOPIC_ID else None


def filled(cls: type[Any], version: int) -> Any:
    """A struct with one element in each list, and a name in each string of one."""
    fields: dict[str, Any] = {}
    for spec in cls.__fields__:
        if version not in spec.versions or not isinstance(spec.type, list):
            continue
        element = spec.type[0]
        fields[spec.name] = [
            filled(element, version)
            if isinstance(element, type)
            else {"string": "name", "uuid": TOPIC_ID}.get(element, 0)
        ]
    return cls(**fields)


def refuser(api: Api, version: int, selection: Selection = Selection()) -> Refuser:  # noqa: B008 - it is frozen
    return Refuser(
        api,
        version,
        CODE,
        selection.matches_subject,
        name_of,
        selection.topic is not None,
        selection.partition is not None,
    )


@pytest.mark.parametrize("api", SERVED, ids=lambda api: api.name)
def test_every_version_of_an_api_carries_an_error(api: Api) -> None:
    fault_of({"api": api.name, "error": CODE.name})
    for version in range(api.min_version, api.max_version + 1):
        if not carries_error(api, version):
            assert (api.name, version < 3) == ("DescribeLogDirs", True)
            continue
        refusal = refuser(api, version).refuse(filled(api.request, version))
        response = refusal.finish(None if refusal.remaining is None else api.response())
        payload = b"".join(map(bytes, encode(response, version)))
        decoded, _ = decode(api.response, version, payload)
        assert [each.error for each in errors_of(api, version, decoded, name_of)] == [CODE.name]


def produce_api() -> Api:
    api = api_named("Produce")
    assert api is not None
    return api


def produced(partitions: dict[str, list[int]]) -> ProduceRequest:
    return ProduceRequest(
        topic_data=[
            TopicProduceData(name=name, partition_data=[PartitionProduceData(index=index) for index in indexes])
            for name, indexes in partitions.items()
        ]
    )


def places(request: Any, version: int = 12) -> list[tuple[str | None, int | None]]:
    return [each.place for each in subjects(shape_of(produce_api(), version), request, name_of)]


@given(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 4), unique=True, min_size=1), min_size=1),
    st.sampled_from("abc"),
    st.none() | st.integers(0, 4),
)
def test_refused_and_remaining_partitions_are_those_of_the_request(
    partitions: dict[str, list[int]], topic: str, partition: int | None
) -> None:
    """The rest is carried out unchanged, and the answer has each partition of the request once."""
    request, selection = produced(partitions), Selection(topic=topic, partition=partition)
    about = subjects(shape_of(produce_api(), 12), request, name_of)
    chosen = {each.place for each in about if selection.matches_subject(each)}
    refusal = refuser(produce_api(), 12, selection).refuse(request)
    remaining = [] if refusal.remaining is None else places(refusal.remaining)
    assert remaining == [each for each in places(request) if each not in chosen]
    carried_out = None if refusal.remaining is None else answered(refusal.remaining)
    response = refusal.finish(carried_out)
    answers = {(topic.name, each.index): each for topic in response.responses for each in topic.partition_responses}
    assert sorted(answers) == sorted(each.place for each in about)
    assert {place for place, each in answers.items() if each.error_code} == chosen
    assert all(each.base_offset == (-1 if each.error_code else 7) for each in answers.values())
    assert len({topic.name for topic in response.responses}) == len(response.responses)


def answered(request: ProduceRequest) -> ProduceResponse:
    """A response with the base offset 7 for each partition."""
    refusal = refuser(produce_api(), 12).refuse(request)
    response: ProduceResponse = refusal.finish(None)
    for topic in response.responses:
        for partition in topic.partition_responses:
            partition.error_code, partition.base_offset = 0, 7
    return response


def test_topic_is_found_by_its_id() -> None:
    request = ProduceRequest(
        topic_data=[TopicProduceData(topic_id=TOPIC_ID, partition_data=[PartitionProduceData(index=3)])]
    )
    assert places(request, 13) == [("orders", 3)]
    refusal = refuser(produce_api(), 13, Selection(topic="orders")).refuse(request)
    assert only(refusal.finish(None).responses).topic_id == TOPIC_ID


def test_metadata_has_the_error_at_the_topic_or_at_the_partition() -> None:
    api = api_named("Metadata")
    assert api is not None
    for selection, topic_code, codes in (
        (Selection(topic="orders"), CODE, []),
        (Selection(topic="orders", partition=1), 0, [0, CODE]),
        (Selection(topic="other"), 0, [0, 0]),
    ):
        refusal = refuser(api, 12, selection).refuse(MetadataRequest(topics=None))
        partitions = [MetadataResponsePartition(partition_index=index, leader_id=4) for index in (0, 1)]
        response = refusal.finish(
            MetadataResponse(topics=[MetadataResponseTopic(name="orders", partitions=partitions)])
        )
        topic = only(response.topics)
        assert topic.error_code == topic_code
        assert [each.error_code for each in topic.partitions] == codes
        assert [each.leader_id for each in topic.partitions] == [
            -1 if each.error_code else 4 for each in topic.partitions
        ]


@pytest.mark.parametrize("version", [1, 5, 8])
def test_offset_fetch_has_the_error_of_the_group_unless_a_topic_is_named(version: int) -> None:
    api = api_named("OffsetFetch")
    assert api is not None
    request = filled(OffsetFetchRequest, version)
    if version == 8:
        request = replaced(request, groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    error = only(errors_of(api, version, refuser(api, version).refuse(request).finish(None), name_of))
    assert error.subject.place == ((None, None) if version > 1 else (None, 0))


def test_first_batch_is_never_torn() -> None:
    batches = [bytes(8) + size.to_bytes(4) + bytes(size) for size in (60, 70, 80)]
    data = b"".join(batches)
    assert batch_ends(data) == [72, 154, 246]
    assert with_less(data, EMPTY) == b""
    assert with_less(data, TORN) == data[: 154 + 46]
    assert batch_ends(with_less(data, TORN)) == [72, 154]
    assert with_less(batches[0], TORN) == b""


def test_api_that_cannot_carry_an_error_is_refused() -> None:
    for api in APIS.values():
        if api not in SERVED:
            with pytest.raises(FaultRefused, match="one error per entry"):
                fault_of({"api": api.name, "error": CODE.name})
