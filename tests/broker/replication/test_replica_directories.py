"""A broker reports the log directories of its replicas to the controller, in few requests, until all are known."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.replication.partition import Partition
from broker.replication.partition_context import PartitionContext, PartitionTasks
from broker.replication.replica_directories import ASSIGNMENTS_MAX, BACKOFF_MS, ReplicaDirectories, has_replica
from broker.storage.log import Log
from broker.wire.api.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryResult,
    PartitionResult,
    TopicResult,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.ids import LOST_DIRECTORY, UNASSIGNED_DIRECTORY
from metadata.image import MetadataDelta, MetadataImage, PartitionImage
from metadata.records import PartitionRecord, TopicRecord
from tests.support.logs import no_trace, open_log

LOCAL, OTHER = 1, 2
EPOCH = 17
ONE, TWO, ELSEWHERE = b"one".ljust(16), b"two".ljust(16), b"elsewhere".ljust(16)


class ScriptedController:
    """Returns errors for the given number of requests, and then accepts all partitions, except for those left out."""

    def __init__(self) -> None:
        self.requests: list[AssignReplicasToDirsRequest] = []
        self.failures: list[Exception | ErrorCode] = []
        self.code = ErrorCode.NONE
        self.left_out: tuple[int, ...] = ()

    async def call(self, request: Any, version: int, *, timeout_ms: float) -> Any:
        self.requests.append(request)
        await trio.lowlevel.checkpoint()
        failure = self.failures.pop(0) if self.failures else ErrorCode.NONE
        if isinstance(failure, Exception):
            raise failure
        if failure is not ErrorCode.NONE:
            return AssignReplicasToDirsResponse(error_code=failure)
        return AssignReplicasToDirsResponse(
            directories=[
                DirectoryResult(
                    id_=directory.id_,
                    topics=[
                        TopicResult(
                            topic_id=topic.topic_id,
                            partitions=[
                                PartitionResult(partition_index=each.partition_index, error_code=self.code)
                                for each in topic.partitions
                                if each.partition_index not in self.left_out
                            ],
                        )
                        for topic in directory.topics
                    ],
                )
                for directory in request.directories
            ]
        )


class Harness:
    """Partitions of one topic, which share one log; `directories` maps each partition to its directory."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.controller = ScriptedController()
        self.found: bytes | None = ONE
        self.directories = ReplicaDirectories(LOCAL, lambda topic, index: self.found, no_trace)
        self.context = PartitionContext(
            local_id=LOCAL,
            lag_max_ms=1_000,
            now_ms=lambda: 0,
            broker=lambda broker_id: None,
            trace=no_trace,
        )
        self.tasks = PartitionTasks[Partition](
            propose_isr=lambda partition: None,
            flush=lambda partition: None,
            check_log=lambda partition, offset: None,
            check_old=lambda partition, offset: None,
        )

    def partition(self, index: int = 0, *, is_there: bool = True) -> Partition:
        log = self.log if is_there else None
        return Partition("topic", b"topic".ljust(16), index, log, self.context, self.tasks)

    def compare(self, partition: Partition, directory: bytes = UNASSIGNED_DIRECTORY) -> None:
        image = PartitionImage((OTHER, LOCAL), (OTHER, LOCAL), OTHER, 0, 0, (ELSEWHERE, directory))
        self.directories.compare(partition, image)

    async def told(self) -> list[dict[int, bytes]]:
        """Wait until all reports are sent, and return those of each request: directory ids by partition."""
        await wait_all_tasks_blocked()
        return [
            {
                each.partition_index: directory.id_
                for directory in request.directories
                for topic in directory.topics
                for each in topic.partitions
            }
            for request in self.controller.requests
        ]


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(open_log(tmp_path / "topic-0"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.directories.run, harness.controller, lambda: EPOCH)
        yield harness
        nursery.cancel_scope.cancel()


async def test_unknown_directory_is_reported(harness: Harness) -> None:
    harness.compare(harness.partition())
    assert await harness.told() == [{0: ONE}]
    (request,) = harness.controller.requests
    assert (request.broker_id, request.broker_epoch) == (LOCAL, EPOCH)


async def test_known_directory_is_not_reported(harness: Harness) -> None:
    harness.compare(harness.partition(), ONE)
    assert await harness.told() == []


async def test_wrong_directory_in_the_metadata_is_corrected(harness: Harness) -> None:
    harness.compare(harness.partition(), TWO)
    assert await harness.told() == [{0: ONE}]


async def test_many_directories_are_reported_in_one_request(harness: Harness) -> None:
    count = ASSIGNMENTS_MAX + 1
    for index in range(count):
        harness.found = ONE if index % 2 else TWO
        harness.compare(harness.partition(index))
    first, second = await harness.told()
    assert (len(first), len(second)) == (ASSIGNMENTS_MAX, 1)
    assert first | second == {index: ONE if index % 2 else TWO for index in range(count)}
    assert len(harness.controller.requests[0].directories) == 2


@pytest.mark.parametrize(
    "failure", [KafkaError(ErrorCode.REQUEST_TIMED_OUT), ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER]
)
async def test_report_is_sent_again_until_it_is_answered(
    harness: Harness, failure: Exception | ErrorCode, autojump_clock: MockClock
) -> None:
    harness.controller.failures = [failure, failure]
    began = trio.current_time()
    harness.compare(harness.partition())
    with trio.move_on_after(60):
        while len(harness.controller.requests) < 3:
            await trio.sleep(BACKOFF_MS / 1000 / 2)
    assert trio.current_time() - began >= 3 * BACKOFF_MS / 1000
    assert await harness.told() == [{0: ONE}] * 3


async def test_replica_that_the_answer_leaves_out_is_reported_again_after_a_growing_pause(
    harness: Harness, autojump_clock: MockClock
) -> None:
    harness.controller.left_out = (1,)
    harness.compare(harness.partition(0))
    harness.compare(harness.partition(1))
    await trio.sleep(BACKOFF_MS / 1000 * 4)
    assert await harness.told() == [{0: ONE, 1: ONE}, {1: ONE}, {1: ONE}, {1: ONE}]
    harness.controller.left_out = ()
    await trio.sleep(60)
    assert (await harness.told())[4:] == [{1: ONE}]


async def test_refused_report_is_not_sent_again(harness: Harness, autojump_clock: MockClock) -> None:
    """The partition was deleted or has no replica here, which the metadata log will show."""
    harness.controller.code = ErrorCode.UNKNOWN_TOPIC_ID
    harness.compare(harness.partition())
    await trio.sleep(60)
    assert await harness.told() == [{0: ONE}]


async def test_assignment_waits_for_the_controller_and_holds_until_the_replica_has_moved(
    harness: Harness, autojump_clock: MockClock
) -> None:
    partition = harness.partition()
    harness.compare(partition, ONE)
    harness.controller.failures = [ErrorCode.NOT_CONTROLLER]
    assert await harness.directories.assign(partition, TWO)
    harness.compare(partition, TWO)
    harness.directories.moved(partition)
    harness.compare(partition, TWO)
    assert await harness.told() == [{0: TWO}] * 2
    assert partition.directory_id == TWO


async def test_refused_assignment_says_so(harness: Harness) -> None:
    harness.controller.code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not await harness.directories.assign(harness.partition(), TWO)


@pytest.mark.parametrize("known", [ONE, TWO])
async def test_present_directory_is_reported_again_after_an_assignment_without_a_move(
    harness: Harness, known: bytes
) -> None:
    """It is reported when the metadata has the other directory, at once or later."""
    partition = harness.partition()
    harness.compare(partition, ONE)
    assert await harness.directories.assign(partition, TWO)
    harness.directories.release(partition, PartitionImage((OTHER, LOCAL), (OTHER,), OTHER, 0, 0, (ELSEWHERE, known)))
    harness.compare(partition, TWO)
    assert (await harness.told())[-1] == {0: ONE}


async def test_replica_without_a_directory_is_reported_as_lost(harness: Harness) -> None:
    harness.compare(harness.partition(is_there=False))
    assert await harness.told() == [{0: LOST_DIRECTORY}]


async def test_replica_in_a_known_failed_directory_is_not_reported(harness: Harness) -> None:
    harness.compare(harness.partition(is_there=False), TWO)
    assert await harness.told() == []


async def test_replica_in_a_failed_directory_is_reported_there(harness: Harness, autojump_clock: MockClock) -> None:
    partition = harness.partition()
    harness.controller.failures = [KafkaError(ErrorCode.REQUEST_TIMED_OUT)]
    harness.compare(partition)
    partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
    harness.found = None
    harness.compare(partition)
    await trio.sleep(1)
    assert await harness.told() == [{0: ONE}] * 2


TOPIC_ID = bytes(range(16))


@pytest.mark.parametrize(
    ("key", "topic_id", "directory_id", "has"),
    [
        (("orders", 0), TOPIC_ID, ONE, True),
        (("orders", 0), TOPIC_ID, None, True),
        (("orders", 0), None, ONE, True),
        (("orders", 0), TOPIC_ID, TWO, False),
        (("orders", 0), bytes(16), ONE, False),
        (("orders", 1), TOPIC_ID, ONE, False),
        (("orders", 2), TOPIC_ID, TWO, True),
        (("orders", 3), TOPIC_ID, ONE, False),
        (("payments", 0), TOPIC_ID, ONE, False),
    ],
    ids=[
        "here",
        "wherever",
        "nobody wrote down of which topic",
        "in another directory",
        "of a topic of that name that is gone",
        "on other brokers",
        "nobody knows where",
        "no such partition",
        "no such topic",
    ],
)
def test_metadata_tells_which_replicas_a_broker_has(
    key: tuple[str, int], topic_id: bytes | None, directory_id: bytes | None, has: bool
) -> None:
    def record(index: int, replica: int, directory: bytes) -> PartitionRecord:
        return PartitionRecord(
            topic_id=TOPIC_ID,
            partition_id=index,
            replicas=(replica,),
            isr=(replica,),
            leader=replica,
            leader_epoch=0,
            partition_epoch=0,
            directories=(directory,),
        )

    delta = MetadataDelta(MetadataImage())
    delta.replay(
        [
            TopicRecord(name="orders", topic_id=TOPIC_ID),
            record(0, LOCAL, ONE),
            record(1, OTHER, ONE),
            record(2, LOCAL, UNASSIGNED_DIRECTORY),
        ]
    )
    assert has_replica(delta.apply(0), LOCAL, key, topic_id, directory_id) is has
