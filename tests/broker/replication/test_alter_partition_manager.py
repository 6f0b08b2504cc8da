"""ISR proposals to the controller: batched, one request at a time, and retried if necessary (KIP-497)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.replication.alter_partition_manager import RETRY_BACKOFF_MS, AlterPartitionManager
from broker.replication.leader_role import LeaderRole, leading
from broker.replication.partition import Partition
from broker.replication.partition_context import PartitionContext, PartitionTasks
from broker.replication.role_changes import apply_image
from broker.wire.api.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image import BrokerImage, PartitionImage
from metadata.records import LEADER_RECOVERED, LEADER_RECOVERING
from tests.support.logs import NOW_MS, batch, no_trace, open_log

LOCAL, FOLLOWER = 1, 2
LOCAL_EPOCH, FOLLOWER_EPOCH = 17, 7
TOPIC_IDS = (b"one".ljust(16), b"two".ljust(16))
LAG_MS = 1_000


class ScriptedController:
    """Keeps each request until the test answers it with a response or an error."""

    def __init__(self) -> None:
        self.requests: list[AlterPartitionRequest] = []
        self._asked, self.asked = trio.open_memory_channel[None](9)
        self.answers, self._answers = trio.open_memory_channel[Any](9)

    async def call(self, request: Any, version: int, *, timeout_ms: float) -> Any:
        assert version == 3
        self.requests.append(request)
        answer = await self._answers.receive()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Answer the last request, with the same code for all partitions."""
        topics = [
            AlteredTopic(
                topic_id=topic.topic_id,
                partitions=[
                    AlteredPartition(
                        partition_index=each.partition_index,
                        error_code=code,
                        leader_id=LOCAL,
                        leader_epoch=each.leader_epoch,
                        isr=[member.broker_id for member in each.new_isr_with_epochs],
                        partition_epoch=each.partition_epoch + 1,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in self.requests[-1].topics
        ]
        self.answers.send_nowait(AlterPartitionResponse(topics=topics))


class Harness:
    """Two partitions that this broker leads, whose follower is out of sync."""

    def __init__(self, directory: Path) -> None:
        self.controller = ScriptedController()
        self.changes = AlterPartitionManager(LOCAL, self._leaders, lag_max_ms=LAG_MS)
        context = PartitionContext(
            local_id=LOCAL,
            lag_max_ms=LAG_MS,
            now_ms=lambda: trio.current_time() * 1000,
            broker=lambda broker_id: BrokerImage(broker_id, FOLLOWER_EPOCH, b"", {}, {}, None, False, False, ()),
            trace=no_trace,
        )
        tasks = PartitionTasks[Partition](
            propose_isr=self.changes.propose,
            flush=lambda partition: None,
            check_log=lambda partition, offset: None,
            check_old=lambda partition, offset: None,
        )
        self.partitions = [
            Partition(f"topic{at}", topic_id, 0, open_log(directory / f"topic{at}-0"), context, tasks)
            for at, topic_id in enumerate(TOPIC_IDS)
        ]
        for partition in self.partitions:
            apply_image(partition, PartitionImage((LOCAL, FOLLOWER), (LOCAL,), LOCAL, 0, 0))

    def _leaders(self) -> list[LeaderRole]:
        return [each.role for each in self.partitions if isinstance(each.role, LeaderRole)]

    def isr(self, at: int) -> tuple[int, ...]:
        return leading(self.partitions[at]).in_sync.isr

    def catch_up(self, at: int) -> None:
        """Let the follower catch up, so that it is proposed for the ISR."""
        leader = leading(self.partitions[at])
        leader.follower_fetched(
            leader.find_follower(FOLLOWER, FOLLOWER_EPOCH, 0),
            broker_epoch=FOLLOWER_EPOCH,
            fetch_offset=leader.log.log_end_offset,
            log_start_offset=0,
        )


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.changes.run, harness.controller, lambda: LOCAL_EPOCH)
        yield harness
        nursery.cancel_scope.cancel()


async def test_proposals_during_a_request_wait_for_the_next_one(harness: Harness) -> None:
    harness.catch_up(0)
    await wait_all_tasks_blocked()
    harness.catch_up(1)
    await wait_all_tasks_blocked()
    assert [[topic.topic_id for topic in each.topics] for each in harness.controller.requests] == [[TOPIC_IDS[0]]]
    harness.controller.answer()
    await wait_all_tasks_blocked()
    assert (harness.isr(0), harness.isr(1)) == ((LOCAL, FOLLOWER), (LOCAL,))
    assert [topic.topic_id for topic in harness.controller.requests[1].topics] == [TOPIC_IDS[1]]
    harness.controller.answer()
    await wait_all_tasks_blocked()
    assert harness.isr(1) == (LOCAL, FOLLOWER)
    assert len(harness.controller.requests) == 2


async def test_simultaneous_proposals_share_a_request_with_all_epochs(harness: Harness) -> None:
    harness.catch_up(0)
    harness.catch_up(1)
    await wait_all_tasks_blocked()
    (request,) = harness.controller.requests
    assert (request.broker_id, request.broker_epoch) == (LOCAL, LOCAL_EPOCH)
    for topic in request.topics:
        (partition,) = topic.partitions
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        members = [(member.broker_id, member.broker_epoch) for member in partition.new_isr_with_epochs]
        assert members == [(LOCAL, LOCAL_EPOCH), (FOLLOWER, FOLLOWER_EPOCH)]
    assert len(request.topics) == 2


@pytest.mark.parametrize(
    "failure",
    [
        KafkaError(ErrorCode.REQUEST_TIMED_OUT),
        AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        AlterPartitionResponse(error_code=-999),
        AlterPartitionResponse(),
    ],
)
async def test_failed_request_is_retried(harness: Harness, failure: Any, autojump_clock: MockClock) -> None:
    harness.catch_up(0)
    await wait_all_tasks_blocked()
    harness.controller.answers.send_nowait(failure)
    for waited, requests in ((0.9, 1), (0.2, 2)):
        await trio.sleep(RETRY_BACKOFF_MS / 1000 * waited)
        assert len(harness.controller.requests) == requests
    harness.controller.answer()
    await wait_all_tasks_blocked()
    assert harness.isr(0) == (LOCAL, FOLLOWER)


async def test_proposal_refused_for_stale_metadata_is_not_retried(harness: Harness, autojump_clock: MockClock) -> None:
    harness.catch_up(0)
    await wait_all_tasks_blocked()
    harness.controller.answer(ErrorCode.INVALID_UPDATE_VERSION)
    await trio.sleep(10)
    assert len(harness.controller.requests) == 1
    apply_image(harness.partitions[0], PartitionImage((LOCAL, FOLLOWER), (LOCAL,), LOCAL, 0, 1))
    harness.catch_up(0)
    await wait_all_tasks_blocked()
    assert len(harness.controller.requests) == 2


async def test_withdrawn_proposal_is_not_sent(harness: Harness) -> None:
    harness.catch_up(0)
    apply_image(harness.partitions[0], PartitionImage((LOCAL, FOLLOWER), (FOLLOWER,), FOLLOWER, 1, 1))
    await wait_all_tasks_blocked()
    assert harness.controller.requests == []


async def test_lagging_follower_is_found_without_client_requests(harness: Harness, autojump_clock: MockClock) -> None:
    harness.catch_up(0)
    await wait_all_tasks_blocked()
    harness.controller.answer()
    await wait_all_tasks_blocked()
    log = harness.partitions[0].log
    assert log is not None
    log.append(batch(b"value"), 0, NOW_MS)
    log.commit()

    await trio.sleep(LAG_MS / 1000 * 2)
    (partition,) = harness.controller.requests[-1].topics[0].partitions
    assert [member.broker_id for member in partition.new_isr_with_epochs] == [LOCAL]
    harness.controller.answer()
    await wait_all_tasks_blocked()
    assert harness.partitions[0].high_watermark == 1


def unclean(partition_epoch: int = 1) -> PartitionImage:
    """The partition's state after an unclean election."""
    replicas, isr = (LOCAL, FOLLOWER), (LOCAL,)
    return PartitionImage(replicas, isr, LOCAL, 1, partition_epoch, leader_recovery_state=LEADER_RECOVERING)


async def test_uncleanly_elected_leader_proposes_its_recovery_kip_704(harness: Harness) -> None:
    """KIP-704; the ISR is unchanged, and the next proposal is sent after the response to this one."""
    partition = harness.partitions[0]
    apply_image(partition, unclean())
    leading(partition).propose_recovery(unclean())
    await wait_all_tasks_blocked()
    (request,) = harness.controller.requests
    (asked,) = request.topics[0].partitions
    assert [member.broker_id for member in asked.new_isr_with_epochs] == [LOCAL]
    assert (asked.leader_epoch, asked.partition_epoch) == (1, 1)
    assert asked.leader_recovery_state == LEADER_RECOVERED
    harness.controller.answer()
    await wait_all_tasks_blocked()
    assert (harness.isr(0), partition.partition_epoch) == ((LOCAL,), 2)


async def test_recovery_is_proposed_again_if_the_metadata_lacks_it_kip_704(harness: Harness) -> None:
    partition = harness.partitions[0]
    apply_image(partition, unclean())
    leading(partition).propose_recovery(unclean())
    await wait_all_tasks_blocked()
    harness.controller.answer(ErrorCode.INVALID_UPDATE_VERSION)
    await wait_all_tasks_blocked()
    apply_image(partition, unclean(partition_epoch=2))
    leading(partition).propose_recovery(unclean(partition_epoch=2))
    await wait_all_tasks_blocked()
    assert [request.topics[0].partitions[0].partition_epoch for request in harness.controller.requests] == [1, 2]


async def test_recovery_is_not_proposed_without_a_loss_or_without_followers(harness: Harness) -> None:
    leading(harness.partitions[0]).propose_recovery(PartitionImage((LOCAL, FOLLOWER), (LOCAL,), LOCAL, 0, 0))
    alone = PartitionImage((LOCAL,), (LOCAL,), LOCAL, 1, 1, leader_recovery_state=LEADER_RECOVERING)
    apply_image(harness.partitions[1], alone)
    leading(harness.partitions[1]).propose_recovery(alone)
    await wait_all_tasks_blocked()
    assert harness.controller.requests == []


async def test_recovery_is_not_proposed_again_for_an_older_partition_epoch(harness: Harness) -> None:
    """The metadata log repeats a state that is older than the one in the controller's response."""
    partition = harness.partitions[0]
    apply_image(partition, unclean())
    leading(partition).propose_recovery(unclean())
    await wait_all_tasks_blocked()
    harness.controller.answer()
    await wait_all_tasks_blocked()
    leading(partition).propose_recovery(unclean())
    await wait_all_tasks_blocked()
    assert len(harness.controller.requests) == 1
