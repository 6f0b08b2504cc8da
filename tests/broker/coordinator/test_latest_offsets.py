"""The ends of partitions that another broker leads, which is asked in portions."""

from types import SimpleNamespace
from typing import Any

import trio

from broker.client import ConnectionLost
from broker.coordinator.latest_offsets import LatestOffsets
from broker.wire.api.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.wire.errors import ErrorCode, KafkaError

LOCAL_ID, OTHER_ID = 1, 2
COUNT = 1_000
PORTION = 256


class Leader:
    """Another broker, which ends each partition at its index. It answers `answers_max` requests."""

    def __init__(self, answers_max: int = COUNT) -> None:
        self.asked: list[int] = []
        self._answers_max = answers_max

    async def call(self, broker_id: int, request: ListOffsetsRequest, _version: int) -> ListOffsetsResponse:
        assert broker_id == OTHER_ID
        await trio.lowlevel.checkpoint()
        if len(self.asked) == self._answers_max:
            raise ConnectionLost("closed")
        self.asked.append(sum(len(topic.partitions) for topic in request.topics))
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=each.partition_index)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def ends(self) -> LatestOffsets:
        topic = SimpleNamespace(partitions=dict.fromkeys(range(COUNT), SimpleNamespace(leader=OTHER_ID)))
        image: Any = SimpleNamespace(topics=SimpleNamespace(by_name={"topic": topic}))
        partitions: Any = None  # none is led here
        connections: Any = self
        return LatestOffsets(LOCAL_ID, partitions, connections, lambda: image)


async def test_leader_of_many_partitions_is_asked_in_portions() -> None:
    leader = Leader()
    found = await leader.ends().of([("topic", index) for index in range(COUNT)])
    assert found == {("topic", index): index for index in range(COUNT)}
    assert leader.asked == [PORTION] * 3 + [COUNT - 3 * PORTION]


async def test_partitions_have_no_leader_once_the_connection_to_it_is_lost() -> None:
    found = await Leader(answers_max=1).ends().of([("topic", index) for index in range(COUNT)])
    ends = list(found.values())
    assert ends[:PORTION] == list(range(PORTION))
    assert len(ends) == COUNT
    assert {each.code for each in ends[PORTION:] if isinstance(each, KafkaError)} == {ErrorCode.LEADER_NOT_AVAILABLE}
