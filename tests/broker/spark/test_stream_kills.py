"""Streaming while the driver, the Python workers and the brokers are killed.

Parquet files have exactly the input. An output topic loses nothing, and its duplicates are counted; with exactlyOnce it
has none.
"""

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from broker.client import SyncAdmin, SyncConsumer, TopicPartition
from tests.support.cluster_process import ClusterProcess
from tests.support.committed_records import committed_values
from tests.support.job_process import (
    START_S,
    JobProcess,
    completed_batches,
    kill_process,
    run_to_the_end,
    run_until,
    wait_until,
)
from tests.support.steady_load import SteadyLoad
from tests.support.streaming_job import StreamingJob

PARTITIONS = 3


def read_topic(servers: str, topic: str) -> list[tuple[int, int, bytes]]:
    """The partition, offset and value of every record."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    found = []
    with SyncConsumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < ends[each] for each in partitions):
            for record in consumer.fetch(max_records=10_000, timeout_s=10):
                found.append((record.partition, record.offset, record.value))
    return sorted(found)


def read_parquet(path: str) -> list[tuple[int, int, bytes]]:
    """The rows of the files that the sink's log has committed: a killed attempt leaves files without an entry."""
    names = set()
    for log in Path(path, "_spark_metadata").iterdir():
        if not log.name.startswith("."):
            names |= {json.loads(line)["path"].rsplit("/", 1)[-1] for line in log.read_text().splitlines()[1:]}
    found = []
    for name in names:
        rows = pq.read_table(Path(path, name), columns=["partition", "offset", "value"])
        found += list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    return sorted(found)


def run_under_kills(
    cluster: ClusterProcess,
    directory: Path,
    kills: list[Callable[[JobProcess, ClusterProcess, Random], None]],
    *,
    rate: int,
    pause_s: float,
    exactly_once: bool,
    has_parquet: bool = True,
) -> tuple[Counter[bytes], str]:
    """Run the job while it is killed, then until it has read all records, and check its outputs.

    Returns the number of occurrences of each value in the output topic, and a summary of the run.
    """
    directory.mkdir()
    rng = Random(1)
    job = StreamingJob(
        cluster.bootstrap, "input", "output", str(directory), exactly_once=exactly_once, has_parquet=has_parquet
    )
    process = JobProcess(job, directory / "job.out")
    began = time.monotonic()

    def batches() -> int:
        return completed_batches(job.topic_checkpoint)

    try:
        with SteadyLoad(cluster.bootstrap, "input", rate):
            for kill in kills:
                before = batches()
                run_until(process, lambda before=before: batches() > before, "a batch of the job")  # type: ignore[misc]
                time.sleep(rng.uniform(0, pause_s))
                kill(process, cluster, rng)
        process.kill()
        for node in cluster.nodes.values():
            if not node.is_running:
                node.start()
    finally:
        process.kill()
    run_to_the_end(job, process.output)
    given = read_topic(cluster.bootstrap, "input")
    if has_parquet:
        assert read_parquet(job.parquet) == given
    written = Counter(committed_values(cluster.bootstrap, "output"))
    assert set(written) == {value for _, _, value in given}, "nothing is lost, and nothing made up"
    if exactly_once:
        assert max(written.values()) == 1, "nothing is written twice"
    seconds = time.monotonic() - began
    return written, f"{len(kills)} kills, {len(given)} records in {batches()} batches, {seconds:.0f} s"


def kill_driver(process: JobProcess, cluster: ClusterProcess, rng: Random) -> None:
    process.kill()


def kill_worker(process: JobProcess, cluster: ClusterProcess, rng: Random) -> None:
    wait_until(lambda: not process.is_running or bool(process.workers()), START_S, "a Python worker")
    if workers := process.workers():
        kill_process(rng.choice(workers))


def kill_broker(process: JobProcess, cluster: ClusterProcess, rng: Random) -> None:
    kill_and_restart(cluster, rng.choice(sorted(cluster.nodes)), rng)


def kill_coordinator(process: JobProcess, cluster: ClusterProcess, rng: Random) -> None:
    """Kills the leader of a partition of the transactions' topic; any broker where there is none yet."""
    with SyncAdmin(cluster.bootstrap) as admin:
        described = admin.describe_topics(["__transaction_state"]).succeeded
    leaders = [each.leader for topic in described.values() for each in topic.partitions if each.leader is not None]
    kill_and_restart(cluster, rng.choice(leaders or sorted(cluster.nodes)), rng)


def kill_and_restart(cluster: ClusterProcess, node_id: int, rng: Random) -> None:
    node = cluster.nodes[node_id]
    node.kill()
    time.sleep(rng.uniform(0, 4))
    node.start()


def test_exactly_once_holds_through_kills_of_a_worker_and_the_driver(
    cluster: ClusterProcess, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    kills = [kill_worker, kill_driver]
    _, summary = run_under_kills(cluster, tmp_path / "job", kills, rate=100, pause_s=1, exactly_once=True)
    figure(summary)


@pytest.mark.parametrize("exactly_once", [False, True], ids=["at_least_once", "exactly_once"])
@pytest.mark.parametrize("kill", [kill_driver, kill_worker, kill_broker, kill_coordinator])
def test_many_kills_lose_nothing_and_leave_exact_outputs_exact(
    kills: int,
    kill: Callable[[JobProcess, ClusterProcess, Random], None],
    exactly_once: bool,
    cluster: ClusterProcess,
    tmp_path: Path,
    figure: Callable[[str], None],
) -> None:
    written, summary = run_under_kills(
        cluster,
        tmp_path / "job",
        [kill] * kills,
        rate=500,
        pause_s=3,
        exactly_once=exactly_once,
        has_parquet=not exactly_once,
    )
    figure(f"{summary}, {sum(written.values()) - len(written)} records written again")
