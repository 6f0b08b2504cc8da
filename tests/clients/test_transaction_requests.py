"""Raw requests to the transaction coordinator, with the answers of Apache Kafka 4.4.

`make test-client-kafka` sends the same requests to Apache Kafka itself. A failure prints all answers, as
`transaction_requests.out` has them.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from benchmarks import apache_kafka
from broker.client import Admin, NewTopic
from tests.support.client_peers import APACHE_KAFKA, OURS
from tests.support.node_process import NodeProcess
from tests.support.transaction_requests import Requests
from tests.support.wire_client import connected

pytestmark = pytest.mark.clients

_ANSWERS: Final = Path(__file__).with_name("transaction_requests.out")
_EPOCH_MAX: Final = 2**15 - 1
_OVERRIDES: Final = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.two.phase.commit.enable": "true",
    "unstable.api.versions.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
}


class _Kafka(apache_kafka.ApacheKafka):
    jvm_options = ("-Xmx320M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

    def properties(self) -> dict[str, str]:
        return super().properties() | _OVERRIDES


@pytest.fixture(scope="module", params=[OURS, APACHE_KAFKA])
def port(request: pytest.FixtureRequest, full: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a node of ours, or of Apache Kafka."""
    if request.param == OURS:
        node = NodeProcess(tmp_path_factory.mktemp("requests") / "data", _OVERRIDES)
        try:
            node.start()
            yield node.port
        finally:
            node.discard()
        return
    if not full and not request.config.getoption("--apache-kafka"):
        pytest.skip("`make test-client-kafka`, or --full, runs this against Apache Kafka")
    try:
        apache_kafka.jars()
    except apache_kafka.Unavailable as why:
        pytest.skip(str(why))
    with _Kafka() as kafka:
        yield kafka.port


@asynccontextmanager
async def requests_to(port: int, *names: str) -> AsyncIterator[Requests]:
    """Requests about these transactional ids, with the topics `orders` and `other`."""
    async with Admin(f"127.0.0.1:{port}") as admin:
        listed = {each.name for each in await admin.list_topics()}
        missing = [NewTopic(name, 2, 1) for name in ("orders", "other") if name not in listed]
        (await admin.create_topics(missing)).raise_first()
    async with connected(port) as client:
        requests = Requests(client)
        await requests.find(*names)
        yield requests


def recorded(title: str) -> list[str]:
    """The answers of Apache Kafka under a title."""
    found: list[str] = []
    is_within = False
    for line in _ANSWERS.read_text().splitlines():
        if line.startswith("# "):
            is_within = line == f"# {title}"
        elif is_within and line:
            found.append(line)
    return found


def check(title: str, lines: Sequence[str]) -> None:
    assert list(lines) == recorded(title), "\n".join(["", f"# {title}", *lines, ""])


async def test_kip_890_end_of_each_state_in_each_epoch(port: int) -> None:
    """The table in Kafka's TransactionCoordinator: Empty, CompleteAbort, CompleteCommit; retry and current epoch."""
    async with requests_to(port, "v5") as requests:
        first = await requests.init("v5")
        producer = await requests.init("v5")
        for outcome in ("commit", "abort"):
            await requests.end("v5", first, outcome)
            await requests.end("v5", (producer[0], producer[1] + 1), outcome)
        await requests.end("v5", producer, "commit")
        await requests.end("v5", (producer[0] + 12_345, producer[1]), "commit")
        after = await requests.end("v5", producer, "abort")
        await requests.describe("v5")
        for outcome in ("abort", "commit"):
            await requests.end("v5", producer, outcome)
        await requests.end("v5", after, "commit")
        producer = await requests.end("v5", after, "abort")
        await requests.describe("v5")
        await requests.add("v5", producer, ("orders", 0), version=5)
        for epoch in (-1, 1):
            for outcome in ("commit", "abort"):
                await requests.end("v5", (producer[0], producer[1] + epoch), outcome)
        await requests.describe("v5")
        after = await requests.end("v5", producer, "commit")
        await requests.describe("v5")
        for outcome in ("commit", "abort"):
            await requests.end("v5", producer, outcome)
        await requests.end("v5", after, "commit")
        await requests.end("v5", after, "abort")
        await requests.describe("v5")
    check("end of each state, version 5", requests.lines)


async def test_end_of_each_state_before_kip_890(port: int) -> None:
    async with requests_to(port, "v4") as requests:
        await requests.init("v4")
        producer = await requests.init("v4")
        old = (producer[0], producer[1] - 1)
        for outcome in ("commit", "abort"):
            await requests.end("v4", producer, outcome, version=4)
        for version in (1, 4):
            await requests.end("v4", old, "abort", version=version)
        for ending, other in (("commit", "abort"), ("abort", "commit")):
            await requests.add("v4", producer, ("orders", 0))
            await requests.end("v4", old, ending, version=4)
            await requests.end("v4", producer, ending, version=4)
            await requests.describe("v4")
            await requests.end("v4", producer, ending, version=4)
            await requests.end("v4", producer, other, version=4)
        await requests.add("v4", producer, ("orders", 0))
        await requests.end("v4", producer, "commit", version=5)
        await requests.describe("v4")
        await requests.end("unknown", producer, "commit", version=4)
        await requests.end("", producer, "commit", version=4)
    check("end of each state, version 4", requests.lines)


async def test_init_producer_id(port: int) -> None:
    async with requests_to(port, "init") as requests:
        first = await requests.init("init")
        second = await requests.init("init", first)
        await requests.init("init", first)  # a retry
        await requests.init("init", (second[0], second[1] + 5))
        await requests.init("init", (second[0] + 1_000, second[1]))
        third = await requests.init("init")
        for version in (3, 5):
            await requests.init("init", second, version=version)
        await requests.init("init", (third[0], -1))
        await requests.init("init", (-1, 0))
        for timeout_ms in (0, -5, 900_000, 900_001):
            await requests.init("init", timeout_ms=timeout_ms)
        await requests.init("")
        await requests.init("new", (7_777, 3))
        await requests.init("new", (7_777, 3))
    check("init", requests.lines)


@pytest.mark.parametrize("version", [4, 5])
async def test_new_incarnation_aborts_an_open_transaction(port: int, version: int) -> None:
    """KIP-890 (version 5): the old producer's abort is then a retry, until the new one has its epoch."""
    name = f"fence-{version}"
    async with requests_to(port, name) as requests:
        producer = await requests.init(name)
        await requests.add(name, producer, ("orders", 0), version=version if version == 5 else 3)
        await requests.init(name)
        await requests.describe(name)
        for outcome in ("commit", "abort"):
            await requests.end(name, producer, outcome, version=version)
        await requests.init(name)
        await requests.end(name, producer, "abort", version=version)
        await requests.describe(name)
    check(f"fencing, version {version}", requests.lines)


@pytest.mark.parametrize("version", [4, 5])
async def test_timed_out_transaction(port: int, version: int) -> None:
    name = f"timeout-{version}"
    async with requests_to(port, name) as requests:
        producer = await requests.init(name, timeout_ms=100)
        await requests.add(name, producer, ("orders", 0), version=version if version == 5 else 3)
        known = await requests.until_ended(name)
        for outcome in ("commit", "abort"):
            await requests.end(name, producer, outcome, version=version)
        await requests.init(name, producer)
        await requests.init(name, known)
    check(f"timeout, version {version}", requests.lines)


async def test_partitions_are_added_and_verified(port: int) -> None:
    """KIP-890: versions 4 and 5 are those of brokers."""
    async with requests_to(port, "add") as requests:
        first = await requests.init("add")
        producer = await requests.init("add")
        for version in (1, 3, 4, 5):
            await requests.add("add", first, ("orders", 0), version=version)
            await requests.add("add", (producer[0] + 1_000, producer[1]), ("orders", 0), version=version)
            await requests.add("add", producer, ("orders", 0), ("absent", 0), ("orders", 7), version=version)
            await requests.add("unknown", producer, ("orders", 0), version=version)
            await requests.add("", producer, ("orders", 0), version=version)
        for version in (4, 5):
            await requests.add("add", producer, ("orders", 0), version=version, verify=True)
        await requests.add("add", producer, ("orders", 0), ("orders", 1))
        for version in (4, 5):
            await requests.add("add", producer, ("orders", 1), ("other", 0), version=version, verify=True)
            await requests.add("add", first, ("orders", 1), version=version, verify=True)
            await requests.add("unknown", producer, ("orders", 1), version=version, verify=True)
        await requests.add("add", producer, ("other", 0), version=5)
        await requests.describe("add")
        await requests.end("add", producer, "abort", version=4)
        await requests.describe("add")
        await requests.add("add", producer, ("orders", 0), version=5, verify=True)
    check("partitions", requests.lines)


async def test_offsets_are_added_and_committed(port: int) -> None:
    """KIP-447: a generation or member that the group does not have is refused."""
    async with requests_to(port, "offsets") as requests:
        await requests.find("group", "none", key_type=0)
        first = await requests.init("offsets")
        producer = await requests.init("offsets")
        for version in (1, 3, 4):
            await requests.add_offsets("offsets", first, "group", version=version)
        await requests.add_offsets("unknown", producer, "group")
        for version in (3, 4):
            await requests.commit_offsets("offsets", producer, "group", "orders", version=version)
        await requests.add_offsets("offsets", producer, "group")
        for version in (3, 4, 5, 6):
            await requests.commit_offsets("offsets", producer, "group", "orders", version=version)
            await requests.commit_offsets("offsets", producer, "group", "absent", version=version)
            await requests.commit_offsets(
                "offsets", producer, "group", "orders", version=version, generation=3, member="m"
            )
            await requests.commit_offsets("offsets", producer, "group", "orders", version=version, member="m")
            await requests.commit_offsets("offsets", first, "group", "orders", version=version)
        for version in (5, 6):
            await requests.commit_offsets("offsets", producer, "none", "orders", version=version, generation=3)
        await requests.describe("offsets")
        producer = await requests.end("offsets", producer, "commit")
        await requests.describe("offsets")
        await requests.commit_offsets("offsets", producer, "group", "orders", version=4)
        await requests.commit_offsets("offsets", producer, "group", "orders", version=6)
        await requests.describe("offsets")
        await requests.end("offsets", producer, "abort")
    check("offsets", requests.lines)


async def test_kip_939_two_phase_commit(port: int) -> None:
    async with requests_to(port, "two-phase") as requests:
        producer = await requests.init("two-phase", version=6, two_phase=True, timeout_ms=0)
        await requests.describe("two-phase")
        await requests.add("two-phase", producer, ("orders", 0), version=5)
        await requests.init("two-phase", version=6, two_phase=True, keep=True)
        await requests.init("two-phase", version=6, keep=True)
        await requests.describe("two-phase")
        await requests.init("two-phase", version=6)
        await requests.describe("two-phase")
        await requests.init("two-phase", version=6, timeout_ms=900_001)
        await requests.init("two-phase", version=6, timeout_ms=30_000)
        await requests.describe("two-phase")
    check("two-phase commit", requests.lines)


async def test_lists_are_filtered(port: int) -> None:
    """KIP-994 and KIP-1152."""
    async with requests_to(port, "list-a") as requests:
        await requests.init("list-empty")
        producer = await requests.init("list-open")
        await requests.add("list-open", producer, ("orders", 0))
        ended = await requests.init("list-ended")
        await requests.add("list-ended", ended, ("orders", 0))
        await requests.end("list-ended", ended, "commit", version=4)
        await requests.describe("list-ended")
        pattern = {"transactional_id_pattern": "list-.*"}
        await requests.list(**pattern)
        for duration_ms in (-1, 3_600_000):
            await requests.list(duration_filter=duration_ms, **pattern)
        await requests.list(state_filters=["Ongoing"], duration_filter=3_600_000, **pattern)
        await requests.list(state_filters=["Ongoing", "Nonsense"], **pattern)
        await requests.list(state_filters=["Nonsense"], **pattern)
        await requests.list(transactional_id_pattern="list")
        await requests.list(transactional_id_pattern="(")
        await requests.list(producer_id_filters=[123_456_789])
        await requests.end("list-open", producer, "abort", version=4)
    check("lists", requests.lines)


async def test_last_epochs(port: int, full: bool) -> None:
    """The epochs of a producer id are used up by InitProducerId, by EndTxn, and by a fence (KIP-360, KIP-890)."""
    if not full:
        pytest.skip("three times 32,000 requests take minutes: --full sends them")
    async with requests_to(port, "last") as requests:
        for way in ("init", "end", "fence"):
            name, shown = f"last-{way}", len(requests.lines)
            producer = await requests.init(name)
            while producer[1] < _EPOCH_MAX - 2:
                producer = await requests.init(name)
            requests.lines = requests.lines[: shown + 1]
            producer = await requests.init(name)
            if way == "init":
                await requests.init(name, producer)
                await requests.init(name, producer)  # a retry
            else:
                await requests.add(name, producer, ("orders", 0), version=5)
                if way == "fence":
                    await requests.init(name)
                else:
                    after = await requests.end(name, producer, "commit")
                await requests.describe(name)
                for outcome in ("commit", "abort"):
                    await requests.end(name, producer, outcome)
                if way == "end":
                    await requests.end(name, (after[0], _EPOCH_MAX - 1), "commit")
                    await requests.end(name, producer, "commit", version=4)
                    await requests.add(name, after, ("orders", 0), version=5)
                    await requests.end(name, producer, "commit")
                    await requests.end(name, after, "commit")
            await requests.init(name)
    check("last epochs", requests.lines)
