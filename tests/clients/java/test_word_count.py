"""Kafka Streams with exactly_once_v2 counts the words of a topic right while nodes and its own process are killed."""

import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from broker.client import NewTopic, SyncAdmin, SyncConsumer, SyncProducer, TopicPartition
from tests.support.cluster_process import ClusterProcess, new_cluster
from tests.support.java_program import JavaPrograms
from tests.support.job_process import wait_until

pytestmark = pytest.mark.clients

PARTITIONS = 3
WORDS = [f"word-{number}" for number in range(40)]
WORDS_PER_LINE = 5
LINES_PER_ROUND = 200
WITHIN_S = 180.0
OVERRIDES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "broker.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
}


class WordCount:
    """The Java program WordCount, which counts the words of the topic `lines` in the topic `counts`."""

    def __init__(self, programs: JavaPrograms, bootstrap: str, directory: Path) -> None:
        self._line = programs.command("WordCount", [bootstrap, "lines", "counts", str(directory / "state")])
        self._output = directory / "word-count.out"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(self._line, stdin=subprocess.PIPE, stdout=output, stderr=output)

    def kill(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process = None


@pytest.fixture
def cluster(java_programs: JavaPrograms, tmp_path: Path) -> Iterator[ClusterProcess]:
    with new_cluster(tmp_path, overrides=OVERRIDES) as cluster:
        cluster.start()
        with SyncAdmin(cluster.bootstrap) as admin:
            topics = [NewTopic(name, num_partitions=PARTITIONS) for name in ("lines", "counts")]
            admin.create_topics(topics).raise_first()
        yield cluster


@pytest.fixture
def word_count(java_programs: JavaPrograms, cluster: ClusterProcess, tmp_path: Path) -> Iterator[WordCount]:
    program = WordCount(java_programs, cluster.bootstrap, tmp_path)
    try:
        yield program
    finally:
        program.kill()


def test_words_are_counted_exactly_once_through_kills(
    cluster: ClusterProcess,
    word_count: WordCount,
    pytestconfig: pytest.Config,
    full: bool,
    figure: Callable[[str], None],
) -> None:
    """Each occurrence of a word adds one to its count: the committed output of a word is 1, 2, 3 and so on."""
    kills = pytestconfig.getoption("--kills") or (20 if full else 3)
    rng, began = Random(1), time.monotonic()
    program_kills = 0
    written: Counter[str] = Counter()
    read: dict[str, list[int]] = defaultdict(list)
    word_count.start()
    with (
        SyncProducer(cluster.bootstrap) as producer,
        SyncConsumer(cluster.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([TopicPartition("counts", index) for index in range(PARTITIONS)])

        def write_lines() -> None:
            for _ in range(LINES_PER_ROUND):
                words = rng.choices(WORDS, k=WORDS_PER_LINE)
                producer.send_soon("lines", " ".join(words).encode())
                written.update(words)

        def has_progress(count: int) -> bool:
            for record in consumer.fetch(max_records=10_000, timeout_s=0.2):
                assert record.key is not None
                assert record.value is not None
                read[record.key.decode()].append(int(record.value))
            return sum(map(len, read.values())) >= count

        def await_progress_amid_words(what: str) -> None:
            """Write a round, and wait until all earlier words and one of the round's are counted."""
            before = written.total()
            write_lines()
            wait_until(lambda: has_progress(before + 1), WITHIN_S, what)

        for kill in range(kills):
            await_progress_amid_words(f"counts before the kill of node {kill}")
            node = cluster.nodes[rng.choice(sorted(cluster.nodes))]
            node.kill()
            write_lines()
            time.sleep(rng.uniform(0, 2))
            node.start()
            if kill % 3 == 1:
                await_progress_amid_words(f"counts before the program is killed after node {kill}")
                word_count.kill()
                word_count.start()
                program_kills += 1
        write_lines()
        wait_until(lambda: has_progress(written.total()), WITHIN_S, "counts of all words")
        for _ in range(5):
            has_progress(0)  # what is counted twice arrives late
    assert dict(read) == {word: list(range(1, count + 1)) for word, count in written.items()}
    figure(
        f"{kills} nodes and {program_kills} programs killed, {written.total()} words counted in"
        f" {time.monotonic() - began:.0f} s"
    )
