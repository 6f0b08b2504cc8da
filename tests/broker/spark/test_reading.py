"""A task between Spark and the brokers: it survives broker failures, and keeps its connections for the next task."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from broker.client import ClosedError, SyncAdmin, SyncConsumer, TopicPartition
from broker.spark.clients import ClientPool
from broker.spark.cluster_offsets import ClusterOffsets
from broker.spark.data_loss import DataLoss
from broker.spark.options import ReadOptions
from broker.spark.ranges import OffsetRange
from broker.spark.reading import read_range
from broker.wire.api.fetch import FetchRequest, FetchResponse
from broker.wire.errors import ErrorCode
from tests.support.cluster_process import new_cluster
from tests.support.scripted_broker import TOPIC_ID, ScriptedBroker, brokers, refusal
from tests.support.spark_topics import create_topic, fill_topic


def consumer_pool() -> ClientPool[SyncConsumer]:
    return ClientPool(lambda servers, keys: SyncConsumer(servers, config=keys))


def options(bootstrap: str, topic: str, **more: str) -> ReadOptions:
    named = {name.replace("_", "."): value for name, value in more.items()}
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **named}
    return ReadOptions.of(given, is_streaming=False)


def whole_topic(chosen: ReadOptions) -> OffsetRange:
    with ClusterOffsets(chosen) as cluster:
        [found] = cluster.ranges()
    return found


def offsets(batches: Iterator[object]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]  # type: ignore[attr-defined]


def test_a_task_goes_on_when_the_leader_is_killed(tmp_path: Path) -> None:
    quick = {"broker.heartbeat.interval.ms": "500", "broker.session.timeout.ms": "3000"}
    with new_cluster(tmp_path, overrides=quick) as cluster:
        cluster.start()
        topic = create_topic(cluster.bootstrap, replicas=3, configs={"min.insync.replicas": "2"})
        fill_topic(cluster.bootstrap, topic, 3_000)
        little = {"kafka_max_partition_fetch_bytes": "4000", "kafka_fetch_buffer_bytes": "8000"}
        chosen = options(cluster.bootstrap, topic, **little)
        rows = read_range(whole_topic(chosen), ["offset"], chosen)
        found = next(rows).column("offset").to_pylist()
        with SyncAdmin(cluster.bootstrap) as admin:
            [partition] = admin.describe_topics([topic]).value(topic).partitions
        assert partition.leader is not None
        cluster.nodes[partition.leader].kill()
        assert found + offsets(rows) == list(range(3_000))


def test_records_deleted_after_planning_are_a_loss(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    fill_topic(bootstrap, topic, 10)
    chosen = options(bootstrap, topic)
    planned = whole_topic(chosen)
    with SyncAdmin(bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 4}).raise_first()
    with pytest.raises(
        DataLoss, match=rf"records in offset \[0, 4\) for topic partition {topic}-0: its log starts at 4"
    ):
        offsets(read_range(planned, ["offset"], chosen))
    assert offsets(read_range(planned, ["offset"], options(bootstrap, topic, failOnDataLoss="false"))) == [
        *range(4, 10)
    ]


def test_a_topic_created_again_after_planning_is_a_loss(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    fill_topic(bootstrap, topic, 10)
    chosen = options(bootstrap, topic)
    planned = whole_topic(chosen)
    with SyncAdmin(bootstrap) as admin:
        admin.delete_topics([topic]).raise_first()
    create_topic(bootstrap, name=topic)
    fill_topic(bootstrap, topic, 10)
    with pytest.raises(DataLoss, match=f"topic {topic} was deleted and created again"):
        offsets(read_range(planned, ["offset"], chosen))
    assert offsets(read_range(planned, ["offset"], options(bootstrap, topic, failOnDataLoss="false"))) == []


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_topic_created_again_is_read_by_a_worker_that_has_read_the_one_before(bootstrap: str, fails: str) -> None:
    topic = create_topic(bootstrap)
    chosen = options(bootstrap, topic, failOnDataLoss=fails)
    fill_topic(bootstrap, topic, 10)
    assert offsets(read_range(whole_topic(chosen), ["offset"], chosen)) == [*range(10)]
    with SyncAdmin(bootstrap) as admin:
        admin.delete_topics([topic]).raise_first()
    create_topic(bootstrap, name=topic)
    fill_topic(bootstrap, topic, 15)
    assert offsets(read_range(whole_topic(chosen), ["offset"], chosen)) == [*range(15)]


@pytest.mark.parametrize("refused", [1, 100])
async def test_an_end_before_the_offset_is_a_loss_if_the_leader_repeats_it(
    refused: int,
) -> None:
    """A leader that was replaced, and does not know it yet, lacks the last records."""

    def answer(broker: ScriptedBroker, request: FetchRequest) -> FetchResponse | None:
        return out_of_range(broker, request) if len(broker.fetches) <= refused else None

    def read(address: str) -> list[int]:
        chosen = options(address, "topic", fetchOffset_retryIntervalMs="10")
        return offsets(read_range(OffsetRange("topic", TOPIC_ID, 0, 0, 3), ["offset"], chosen))

    out_of_range = refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
    async with brokers(answer) as [broker]:
        if refused == 1:
            assert await trio.to_thread.run_sync(read, broker.node.address) == [0, 1, 2]
        else:
            with pytest.raises(DataLoss, match=r"records in offset \[0, 3\) for topic partition topic-0: its log ends"):
                await trio.to_thread.run_sync(read, broker.node.address)


def test_waiting_for_records_ends_after_the_poll_timeout(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    chosen = options(bootstrap, topic, kafkaConsumer_pollTimeoutMs="200")
    beyond = OffsetRange(topic, whole_topic(chosen).topic_id, 0, 0, 5)
    with pytest.raises(TimeoutError, match="in 200 milliseconds"):
        offsets(read_range(beyond, ["offset"], chosen))


def test_a_consumer_is_lent_again_with_the_same_settings_only(bootstrap: str) -> None:
    pool = consumer_pool()
    settings: dict[str, object] = {"bootstrap.servers": bootstrap}
    with pool.lend(settings) as first, pool.lend(settings) as second:
        assert first is not second
    with pool.lend(settings) as again:
        assert again in (first, second)
    with pool.lend({**settings, "client.id": "other"}) as other:
        assert other not in (first, second)
    pool.close_idle(idle_s=0)


def is_open(consumer: SyncConsumer) -> bool:
    try:
        consumer.assignment()
    except ClosedError:
        return False
    return True


def test_a_consumer_is_closed_when_its_task_fails_or_none_comes(bootstrap: str) -> None:
    pool = consumer_pool()
    settings: dict[str, object] = {"bootstrap.servers": bootstrap}
    with pytest.raises(RuntimeError), pool.lend(settings) as failed:
        raise RuntimeError
    assert not is_open(failed)
    with pool.lend(settings) as idle:
        pass
    pool.close_idle()
    assert is_open(idle)
    pool.close_idle(idle_s=0)
    assert not is_open(idle)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_opens_consumers_of_its_own(bootstrap: str) -> None:
    pool = consumer_pool()
    settings: dict[str, object] = {"bootstrap.servers": bootstrap}
    with pool.lend(settings) as parent_client:
        pass
    child = os.fork()
    if not child:
        try:
            with pool.lend(settings) as own:
                is_right = own is not parent_client and is_open(own)
            os._exit(0 if is_right else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert is_open(parent_client)
    pool.close_idle(idle_s=0)


def test_forked_process_does_not_wait_for_a_lock_of_its_parents_clients(bootstrap: str) -> None:
    """The child drops the parent's clients. It must not hand their closing to the parent's loop, whose lock is held."""
    script = """
import os, sys, threading, time
from broker.client.hosted.loop import PROCESS_LOOP
from broker.spark.clients import CONSUMERS
with CONSUMERS.lend({"bootstrap.servers": sys.argv[1]}):
    pass
held = threading.Event()
def hold():
    with PROCESS_LOOP.get()._token._reentry_queue.lock:
        held.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if not child:
    os._exit(0)
deadline = time.monotonic() + 20
while not (ended := os.waitpid(child, os.WNOHANG)[0]) and time.monotonic() < deadline:
    time.sleep(0.01)
if not ended:
    os.kill(child, 9)
os._exit(0 if ended else 1)
"""
    assert subprocess.run([sys.executable, "-c", script, bootstrap], check=False).returncode == 0
