"""`simulate` runs programs of others under the simulator: what they get, what checks see, what a failure says."""

import copy
import datetime as dates
import logging
import pickle
import random
import re
import time
import uuid
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import trio

from broker.client import ClientError, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from jepsen.simulation.clock import WALL_EPOCH_S
from jepsen.testing import Machine, SimulatedCluster, SimulationFailed, simulate

# Each simulated run ends with a collection of garbage.
pytestmark = pytest.mark.usefixtures("few_objects")

SUPERVISED = (ClientError, KafkaError)


async def produce_ten(machine: Machine) -> None:
    async with Producer(machine.bootstrap_servers) as producer:
        for number in range(10):
            await producer.send("numbers", b"%d" % number)
            await trio.sleep(0.2)


async def consume(machine: Machine) -> None:
    async with Consumer(
        machine.bootstrap_servers,
        topics=["numbers"],
        group_id="readers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while True:
            for record in await consumer.fetch(timeout_s=1):
                machine.observe("read", (record.value or b"").decode())
            await consumer.commit()


def test_checks_see_records_offsets_and_observations() -> None:
    sizes = []

    def all_are_read(cluster: SimulatedCluster) -> None:
        assert cluster.has_finished("produce_ten")
        assert cluster.committed("readers") == {TopicPartition("numbers", 0): 10}
        assert [record.value for record in cluster.records("numbers")] == [b"%d" % number for number in range(10)]
        assert cluster.observed("read") == [str(number) for number in range(10)]
        assert cluster.observed("written") == []
        assert cluster.records("letters") == []
        assert cluster.committed("writers") == {}

    def note_size(cluster: SimulatedCluster) -> None:
        sizes.append(len(cluster.records("numbers")))

    report = simulate(
        [produce_ten, consume],
        seeds=[1, 2],
        faults=(),
        seconds=5,
        topics={"numbers": 1},
        always=note_size,
        eventually=all_are_read,
    )
    assert [run.seed for run in report.runs] == [1, 2]
    assert len(set(sizes)) > 1, "checked while the program runs"
    assert "2 seeds without a failure: 0 faults" in str(report)


def test_checks_see_committed_transactions_only() -> None:
    async def transact(machine: Machine) -> None:
        async with Producer(machine.bootstrap_servers, transactional_id="t") as producer:
            for number in range(6):
                try:
                    async with producer.transaction():
                        await producer.send("numbers", b"%d" % number)
                        if number % 2:
                            raise LookupError
                except LookupError:
                    machine.log(f"aborted {number}")

    def only_even_ones(cluster: SimulatedCluster) -> None:
        assert [record.value for record in cluster.records("numbers")] == [b"0", b"2", b"4"][
            : len(cluster.records("numbers"))
        ]

    def all_even_ones(cluster: SimulatedCluster) -> None:
        assert len(cluster.records("numbers")) == 3

    simulate(
        transact,
        seeds=[3],
        faults=(),
        topics=[NewTopic("numbers", 1, 3)],
        always=only_even_ones,
        eventually=all_even_ones,
    )


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_seed_gives_the_same_run_again(nodes: int) -> None:
    digests = [
        simulate([produce_ten, consume], nodes=nodes, seeds=[seed], seconds=6, restart_on=SUPERVISED).runs[0].digest
        for seed in (5, 5, 6)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_time_and_random_numbers_are_those_of_the_simulated_world() -> None:
    seen: list[tuple[object, ...]] = []

    async def look(machine: Machine) -> None:
        await trio.sleep(20)
        numbers = (random.random(), uuid.uuid4(), machine.rng.random())
        seen.append((time.time() - WALL_EPOCH_S, time.monotonic() - trio.current_time(), machine.starts, *numbers))

    state = random.getstate()
    for _ in range(2):
        simulate(look, nodes=1, seeds=[1], faults=(), seconds=40)
    assert seen[0] == seen[1]
    wall, monotonic, starts, *_ = seen[0]
    assert isinstance(wall, float)
    assert 20 < wall < 30
    assert (monotonic, starts) == (0, 1)
    assert random.getstate() == state
    assert time.time() > WALL_EPOCH_S + 1_000


def test_dates_are_those_of_the_simulated_machine() -> None:
    seen: list[tuple[object, ...]] = []
    pickled: list[bytes] = []

    async def look(machine: Machine) -> None:
        now, wall = datetime.now(UTC), datetime.fromtimestamp(machine.wall(), UTC)
        assert now == wall == datetime.utcnow().replace(tzinfo=UTC)
        assert datetime.today() == datetime.fromtimestamp(machine.wall())
        assert date.today() == dates.date.today() == wall.astimezone().date()
        made = datetime(2026, 5, 4, tzinfo=UTC)
        assert isinstance(made, datetime)
        assert isinstance(made, date)
        assert not isinstance(date(2026, 5, 4), datetime)
        assert copy.deepcopy([made]) == [datetime.fromisoformat("2026-05-04T00:00:00Z")]
        pickled.append(pickle.dumps((made, made.date())))
        assert pickle.loads(pickled[0]) == (made, made.date())

        class Day(datetime): ...

        assert isinstance(Day.now(UTC), Day)
        assert not isinstance(made, Day)
        seen.append((now, type(now), type(made)))

    simulate(look, nodes=1, seeds=[1], faults=())
    assert pickle.loads(pickled[0]) == (datetime(2026, 5, 4, tzinfo=UTC), date(2026, 5, 4))
    [(now, *classes)] = seen
    assert isinstance(now, datetime)
    assert now.timestamp() < WALL_EPOCH_S + 100
    assert classes == [datetime, datetime]
    assert datetime.now(UTC).timestamp() > WALL_EPOCH_S + 1_000


def test_killed_processes_start_again_with_their_files() -> None:
    starts: Counter[int] = Counter()

    async def count_starts(machine: Machine) -> None:
        path = machine.directory / "starts"
        assert machine.starts == 1 + (int(path.read_text()) if path.exists() else 0)
        path.write_text(str(machine.starts))
        file = machine.disk.open("/starts", create=True)
        assert file.read(0, 100) == b"x" * (machine.starts - 1), "kill -9 keeps the page cache"
        file.write(file.size(), [b"x"])
        starts[machine.starts] += 1
        await trio.sleep_forever()

    simulate(count_starts, nodes=1, seeds=range(4), faults=["kill"], seconds=15)
    assert starts[1] == 4
    assert starts[2] > 0


def test_power_cuts_take_unsynced_writes_of_an_application() -> None:
    lost = []

    async def write(machine: Machine) -> None:
        file = machine.disk.open("/file", create=True)
        if machine.starts == 1:
            file.write(0, [b"synced"])
            await file.sync()
            await machine.disk.sync_dir("/")
            file.write(6, [b" and not synced"])
        assert file.read(0, 6) == b"synced"
        lost.append(file.size() < 21)
        await trio.sleep_forever()

    simulate(write, nodes=1, seeds=range(4), faults=["power"], seconds=15)
    assert True in lost


def test_clocks_and_links_of_applications_fail_too() -> None:
    offsets, refusals = [], []

    async def watch(machine: Machine) -> None:
        while True:
            offsets.append(round(machine.wall() - WALL_EPOCH_S - trio.current_time()))
            with trio.move_on_after(0.5) as scope:
                stream = await trio.open_tcp_stream("n1", 9092)
                await stream.aclose()
            refusals.append(scope.cancelled_caught)
            await trio.sleep(0.5)

    report = simulate(watch, nodes=1, seeds=range(4), faults=["clock", "isolate"], seconds=20)
    timeline = "\n".join(str(entry) for run in report.runs for entry in run.timeline)
    assert "cut: n1 - watch" in timeline
    assert re.search(r"clock wrong by [+-]\d+ s on (n1, )?watch", timeline)
    assert any(offsets)
    assert True in refusals


def test_a_failed_assertion_shows_traceback_timeline_and_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(machine: Machine) -> None:
        logging.getLogger("shop").info("open for %s", "all")
        print("printed", end=" ")
        print("line")
        machine.observe("customer", 7)
        await trio.sleep(20)
        assert machine.starts > 1, "a made up mistake"

    with pytest.raises(SimulationFailed) as raised:
        simulate(serve, nodes=1, seeds=range(10, 20), faults=["kill"], seconds=30)
    message = str(raised.value)
    run = raised.value.run
    assert f"seed {run.seed} fails after" in message
    assert 'assert machine.starts > 1, "a made up mistake"' in message
    assert f"Trace digest: {run.digest}" in message
    assert "serve      info: open for all" in message
    assert "serve      printed line" in message
    assert "customer: 7" not in message
    this_test = (
        "tests/simulation/applications/test_simulate.py::test_a_failed_assertion_shows_traceback_timeline_and_replay"
    )
    assert raised.value.replay == f"SIMULATE_SEED={run.seed} python -m pytest {this_test}"

    monkeypatch.setenv("SIMULATE_SEED", str(run.seed))
    with pytest.raises(SimulationFailed) as again:
        simulate(serve, nodes=1, seeds=range(10), faults=["kill"], seconds=30)
    assert again.value.run.digest == run.digest
    assert "customer: 7" in str(again.value)


def test_an_error_fails_the_run_unless_it_is_one_to_restart_on() -> None:
    async def fragile(machine: Machine) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1)
            if machine.starts < 3:
                raise LookupError("nothing there")

    def has_finished(cluster: SimulatedCluster) -> None:
        assert cluster.has_finished("fragile")

    simulate(fragile, nodes=1, seeds=[1], faults=(), eventually=has_finished, restart_on=LookupError)
    with pytest.raises(SimulationFailed, match="LookupError: nothing there"):
        simulate(fragile, nodes=1, seeds=[1], faults=(), restart_on=ValueError)


def test_checks_that_stay_false_fail_the_run() -> None:
    def many(cluster: SimulatedCluster) -> None:
        assert len(cluster.records("numbers")) > 10, "too few"

    def few(cluster: SimulatedCluster) -> None:
        assert len(cluster.records("numbers")) < 5, "too many"

    with pytest.raises(SimulationFailed, match=r"not true 7 s after the last fault: many failed with.*too few"):
        simulate(produce_ten, nodes=1, seeds=[1], faults=(), recovery_seconds=7, eventually=many)
    with pytest.raises(SimulationFailed, match=r"few failed with.*too many"):
        simulate(produce_ten, nodes=1, seeds=[1], faults=(), always=[few])


def test_check_that_returns_false_fails() -> None:
    with pytest.raises(SimulationFailed, match="not true 2 s after the last fault: <lambda> returned False"):
        simulate(produce_ten, nodes=1, seeds=[1], faults=(), recovery_seconds=2, eventually=lambda cluster: False)


@pytest.mark.parametrize("jobs", [1, 2])
def test_exit_of_a_process_is_not_that_of_the_simulation(jobs: int) -> None:
    async def exit_within(machine: Machine) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise SystemExit(3)

    async def give_up(machine: Machine) -> None:
        raise SystemExit("no orders")

    async def exit_well(machine: Machine) -> None:
        raise SystemExit

    for application in (exit_within, give_up):
        with pytest.raises(SimulationFailed, match=f"{application.__name__} ended with .*SystemExit"):
            simulate(application, nodes=1, seeds=[1, 2], faults=(), jobs=jobs)
    simulate(
        exit_well,
        nodes=1,
        seeds=[1, 2],
        faults=(),
        jobs=jobs,
        eventually=lambda cluster: cluster.has_finished("exit_well"),
    )


def test_runs_that_depend_on_each_other_are_told(tmp_path: Path) -> None:
    calls = []

    async def remember(machine: Machine) -> None:
        calls.append(machine)
        machine.log(f"call {len(calls)}")
        raise AssertionError("always")

    with pytest.raises(SimulationFailed, match=r"(?s)A second run of this seed was another one.*call 1.*call 2"):
        simulate(remember, nodes=1, seeds=[1], faults=())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"faults": ["crush"]}, ValueError, "no fault is called 'crush'; there are crash, restart"),
        ({"faults": "crash"}, TypeError, "sequence of names"),
        ({"nodes": 0}, ValueError, "nodes has to be an integer from 1 to 100, not 0"),
        ({"nodes": True}, ValueError, "nodes has to be an integer from 1 to 100, not True"),
        ({"seconds": float("inf")}, ValueError, "seconds has to be a number from 0 to 1000000, not inf"),
        ({"recovery_seconds": "3"}, ValueError, "recovery_seconds has to be a number from 0 to 1000000, not '3'"),
        ({"step_seconds_max": float("inf")}, ValueError, "step_seconds_max has to be a number"),
        ({"topics": {"numbers": "3"}}, TypeError, "topics has to map names to numbers of partitions"),
        ({"restart_on": BaseException}, TypeError, "a class of exceptions or a tuple of them"),
        ({"jobs": 1.5}, ValueError, "at least one seed and one job"),
        ({"application": {"../away": consume}}, ValueError, "cannot be called '../away': letters"),
        ({"seeds": []}, ValueError, "at least one seed and one job"),
        ({"jobs": 0}, ValueError, "at least one seed and one job"),
        ({"topics": ["numbers"]}, TypeError, "NewTopics"),
        ({"always": produce_ten}, TypeError, "a plain function"),
        ({"application": {}}, ValueError, "at least one process"),
        ({"application": {"n1": consume}}, ValueError, "cannot be called 'n1'"),
        ({"application": print}, TypeError, "an async function that takes a Machine"),
    ],
)
def test_arguments_are_checked(options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        simulate(**{"application": consume, **options})  # type: ignore[arg-type]


def test_topics_that_cannot_be_created_fail_the_run() -> None:
    with pytest.raises(SimulationFailed, match="the topics cannot be created: INVALID_REPLICATION_FACTOR"):
        simulate(consume, nodes=1, seeds=[1], topics=[NewTopic("numbers", 1, 3)])
